"""The files in deploy/ start the gateway with words that it knows."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from segue.cli.command_table import parser_of
from segue.config.layers import load_settings
from segue.config.model_names import reference_faults
from segue.gateway.telemetry.metrics import GatewayMetrics

DEPLOY = Path(__file__).parent.parent / "deploy"


def test_the_container_and_the_service_start_the_gateway() -> None:
    container = json.loads(
        re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[-1]
    )
    service = shlex.split(
        re.findall(r"^ExecStart=(.*)$", (DEPLOY / "segue.service").read_text(), re.MULTILINE)[0]
    )
    for words in (container, service):
        assert Path(words[0]).name == "segue"
        assert words[1] == "serve"
        parser_of("serve").parse_args(words[2:])


@pytest.mark.parametrize("file", ["nginx.conf", "compose/nginx.conf"])
def test_a_proxy_passes_streams_on_as_they_come(file: str) -> None:
    text = (DEPLOY / file).read_text()
    assert "proxy_buffering off;" in text
    assert text.count("{") == text.count("}")


def test_the_parts_of_the_compose_file_fit_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"gateway", "postgres", "nginx", "prometheus", "grafana"}
    own = {"config.toml", "nginx.conf", "prometheus.yml", "grafana/provisioning"}
    mounted = {
        volume.split(":")[0].removeprefix("./")
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    }
    assert mounted == {*own, "prometheus.key"}, "all but the key are here"
    assert all((DEPLOY / "compose" / name).exists() for name in own)
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    extras = services["gateway"]["build"]["args"]["EXTRAS"].split(",")
    assert "ARG EXTRAS" in dockerfile
    known = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= set(known)
    for file in DEPLOY.rglob("*.y*ml"):
        assert all(yaml.safe_load_all(file.read_text())), file
    monkeypatch.setenv("SEGUE_CONFIG", str(DEPLOY / "compose/config.toml"))
    monkeypatch.setenv("SEGUE_STORE", services["gateway"]["environment"]["SEGUE_STORE"])
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert reference_faults(settings) == []
    assert settings.config.store.startswith("postgresql://")
    (first,) = settings.config.gateway.callers.values()
    assert first.dollars_per_day, "nobody begins without a limit"
    assert first.key_env in (DEPLOY / "compose/compose.yaml").read_text()
    variable = settings.config.gateway.memory.key_env
    assert variable in (DEPLOY / "compose/compose.yaml").read_text()


def test_no_service_of_the_compose_file_starts_with_a_password_that_everybody_knows() -> None:
    services = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
    passwords = {
        value
        for service in services.values()
        for name, value in service.get("environment", {}).items()
        if "PASSWORD" in name
    }
    assert passwords == {"${POSTGRES_PASSWORD:?}", "${GRAFANA_PASSWORD:?}"}, (
        "compose refuses to start without them"
    )
    assert "GF_SECURITY_ADMIN_PASSWORD" in services["grafana"]["environment"]


def test_alerts_are_about_metrics_that_exist() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
    metrics = GatewayMetrics()
    known = {family.name for family in text_string_to_metric_families(metrics.text().decode())}
    for rule in rules:
        named = set(re.findall(r"segue_[a-z_]+", rule["expr"]))
        assert named
        assert {re.sub("_(total|bucket)$", "", name) for name in named} <= known, rule["alert"]


def test_the_parts_for_kubernetes_fit_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parts = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    assert set(parts) == {
        "ConfigMap",
        "Deployment",
        "Service",
        "PodDisruptionBudget",
        "Ingress",
        "NetworkPolicy",
    }
    deployment = parts["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert parts["Service"]["spec"]["selector"] == labels
    assert parts["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert parts["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]
    pod = deployment["template"]["spec"]
    (gateway,) = pod["containers"]
    assert gateway["args"][:2] == ["segue", "serve"]
    asked = parser_of("serve").parse_args(gateway["args"][2:])
    assert asked.port == gateway["ports"][0]["containerPort"]
    assert gateway["readinessProbe"]["httpGet"] == {"path": "/readyz?store=no", "port": "http"}
    assert gateway["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert parts["Service"]["spec"]["ports"][0]["targetPort"] == gateway["ports"][0]["name"]
    (rule,) = parts["Ingress"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "segue", "port": {"name": "http"}}
    assert parts["Ingress"]["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert parts["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    config = tmp_path / "config.toml"
    config.write_text(parts["ConfigMap"]["data"]["config.toml"])
    monkeypatch.setenv("SEGUE_CONFIG", str(config))
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert reference_faults(settings) == []
    pause = gateway["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pause + settings.config.gateway.limits.drain + 5
    operations = (DEPLOY.parent / "docs/operations.md").read_text()
    (secret,) = gateway["envFrom"]
    assert f"kubectl create secret generic {secret['secretRef']['name']}" in operations
    for variable in ("SEGUE_STORE", "SEGUE_INSTALLATION_KEY", "SEGUE_GATEWAY_KEY", "PGPASSWORD"):
        assert f"--from-literal={variable}=" in operations, variable
