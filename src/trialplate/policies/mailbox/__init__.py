"""An actor that works through files: its folder, its one text, and what nothing there may say."""
