"""Leaves of target/ what is read: nodes, sources, groups, exposures, and how macros of the project use each other."""
import json, os, shutil

manifest = json.load(open("target/manifest.json"))
kept = {key: manifest[key] for key in ("metadata", "nodes", "sources", "groups", "exposures")}
kept["macros"] = {
    name: {"depends_on": macro["depends_on"]}
    for name, macro in manifest["macros"].items()
    if macro["package_name"] == manifest["metadata"]["project_name"]
}
for node in kept["nodes"].values():
    node.pop("root_path", None)
    node.pop("raw_code" if node["resource_type"] == "test" else "checksum", None)
for key in ("invocation_id", "user_id", "project_id", "env"):
    kept["metadata"].pop(key, None)
catalog = json.load(open("target/catalog.json"))
shutil.rmtree("target")
os.mkdir("target")
json.dump(kept, open("target/manifest.json", "w"), indent=1, sort_keys=True)
json.dump({key: catalog[key] for key in ("nodes", "sources")}, open("target/catalog.json", "w"), indent=1, sort_keys=True)
