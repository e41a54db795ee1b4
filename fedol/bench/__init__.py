"""The paper's table, figure and cost analysis. Nothing here needs the command line or a terminal library."""
