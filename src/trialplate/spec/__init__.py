"""What was promised: frozen, strict documents."""
