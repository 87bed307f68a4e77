"""What goes between the driver, the planner and the workers."""
