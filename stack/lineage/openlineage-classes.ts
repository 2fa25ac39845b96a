/** OpenLineage's own Python classes as readers of events: each part is built by its class, which knows no other keys and types. */
import { spawn } from 'node:child_process'

const READER = `
import importlib, json, sys, types, typing
import attr
from openlineage.client.generated import base
from openlineage.client.serde import Serde

FACETS = {
    'run': {'processing_engine': 'processing_engine_run.ProcessingEngineRunFacet', 'tags': 'tags_run.TagsRunFacet',
            'nominalTime': 'nominal_time_run.NominalTimeRunFacet', 'errorMessage': 'error_message_run.ErrorMessageRunFacet'},
    'job': {'jobType': 'job_type_job.JobTypeJobFacet', 'documentation': 'documentation_job.DocumentationJobFacet',
            'ownership': 'ownership_job.OwnershipJobFacet'},
    'dataset': {'schema': 'schema_dataset.SchemaDatasetFacet', 'documentation': 'documentation_dataset.DocumentationDatasetFacet',
                'ownership': 'ownership_dataset.OwnershipDatasetFacet', 'version': 'dataset_version_dataset.DatasetVersionDatasetFacet',
                'columnLineage': 'column_lineage_dataset.ColumnLineageDatasetFacet',
                'dataQualityAssertions': 'data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet'},
    'output': {'outputStatistics': 'output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet'},
}

def build(tp, value, where):
    origin = typing.get_origin(tp)
    if origin in (typing.Union, types.UnionType):
        if value is None: return None
        tp = next(one for one in typing.get_args(tp) if one is not type(None))
        return build(tp, value, where)
    if origin is list:
        assert isinstance(value, list), where
        return [build(typing.get_args(tp)[0], one, where) for one in value]
    if origin is dict:
        assert isinstance(value, dict), where
        return {key: build(typing.get_args(tp)[1], one, where + '.' + key) for key, one in value.items()}
    if attr.has(tp):
        hints = typing.get_type_hints(tp)
        given = {key: one for key, one in value.items() if key not in ('_schemaURL', 'schemaURL')}
        known = {field.name for field in attr.fields(tp)}
        assert set(given) <= known, (where, set(given) - known)
        made = tp(**{key.lstrip('_'): build(hints[key], one, where + '.' + key) for key, one in given.items()})
        url = value.get('_schemaURL', value.get('schemaURL'))
        if url is not None: assert url == tp._get_schema(), (where, url, tp._get_schema())
        return made
    if tp is typing.Any: return value
    if isinstance(tp, type) and issubclass(tp, base.EventType): return tp(value)
    assert isinstance(value, tp) and not (tp is int and isinstance(value, bool)), (where, tp, value)
    return value

def facets(kind, found):
    made = {}
    for key, value in (found or {}).items():
        module, name = FACETS[kind][key].split('.')
        cls = getattr(importlib.import_module('openlineage.client.generated.' + module), name)
        made[key] = build(cls, value, kind + ':' + key)
    return made

def dataset(cls, found, more, kind):
    assert set(found) <= {'namespace', 'name', 'facets', more}, set(found)
    return cls(namespace=found['namespace'], name=found['name'], facets=facets('dataset', found.get('facets')),
               **{more: facets(kind, found.get(more))})

def bare(value):
    if isinstance(value, dict):
        return {key: one for key, one in ((key, bare(one)) for key, one in value.items()) if one not in (None, {}, [])}
    return [bare(one) for one in value] if isinstance(value, list) else value

def read(found):
    assert set(found) == {'eventType', 'eventTime', 'producer', 'schemaURL', 'run', 'job', 'inputs', 'outputs'}, set(found)
    assert found['schemaURL'] == base.RunEvent._get_schema()
    assert set(found['run']) == {'runId', 'facets'} and set(found['job']) == {'namespace', 'name', 'facets'}
    event = base.RunEvent(
        eventType=base.EventType(found['eventType']), eventTime=found['eventTime'], producer=found['producer'],
        run=base.Run(found['run']['runId'], facets('run', found['run']['facets'])),
        job=base.Job(found['job']['namespace'], found['job']['name'], facets('job', found['job']['facets'])),
        inputs=[dataset(base.InputDataset, one, 'inputFacets', 'input') for one in found['inputs']],
        outputs=[dataset(base.OutputDataset, one, 'outputFacets', 'output') for one in found['outputs']])
    assert bare(Serde.to_dict(event)) == bare(found), (Serde.to_dict(event), found)

events = json.load(sys.stdin)
for event in events: read(event)
print(len(events))
`

/** How many events it has read. Throws what it says of the first that is none. */
export async function readByClasses(python: string, events: readonly unknown[]): Promise<number> {
  const child = spawn(python, ['-c', READER], { stdio: ['pipe', 'pipe', 'pipe'] })
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said.stderr += chunk.toString()))
  child.stdin.end(JSON.stringify(events))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(said.stderr.slice(-4_000))
  return Number(said.stdout)
}
