"""Notifications to people: rules, triggers, outbox and sending through Apprise."""
