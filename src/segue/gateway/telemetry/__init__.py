"""What the gateway reports to operators' systems: Prometheus and OpenTelemetry. Nothing is loaded where it is off."""
