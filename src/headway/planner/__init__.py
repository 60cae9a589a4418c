"""The questions: each a pure function of shapes, systems and prices, that states its assumptions."""
