"""The program of whole fleets: one lane is a fleet of instances, any scheduler, routers that look at the fleet."""
