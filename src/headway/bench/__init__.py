"""The judge: a load generator for any OpenAI-compatible endpoint that doesn't flatter anyone, itself included."""
