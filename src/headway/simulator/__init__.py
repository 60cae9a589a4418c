"""The virtual body: the scheduler that serves, on a virtual clock, on hardware that nobody here owns.

world        the clock: a heap of events                    router     which replica a request goes to
step_time    how long a step takes on a system              fleet      clients, router, replicas
executor     carries plans out on the virtual clock         record     what became of each call
replica      a scheduler and its executor                   results    quantiles, goodput, joules, dollars
"""
