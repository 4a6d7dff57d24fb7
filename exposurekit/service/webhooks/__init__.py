"""Webhooks to integrators: endpoints, the outbox and its sending."""
