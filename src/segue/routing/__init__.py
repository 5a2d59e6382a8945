"""Who answers a turn: routes, routers, their policies and members, retries and circuit breakers."""
