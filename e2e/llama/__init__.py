"""A real engine on any machine: a random-weight model, a llama.cpp server for it, and conversations to send."""
