"""Helpers shared by the end-to-end tests: processes, ports, configurations, scripted replicas, prompts."""
