"""Webhooks to integrators: endpoints, the outbox, states of a delivery, and sending."""
