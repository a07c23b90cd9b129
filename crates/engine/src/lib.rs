//! A model of an LLM engine in virtual time, and a server that runs it behind vLLM's surface.
