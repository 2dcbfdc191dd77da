"""A policy object behind a WebSocket, for many clients: what ``trialplate policy serve`` runs."""
