/** One OpenLineage event (specification 2-0-2) of a run that makes a product, from what is known of it. Pure. */
import { createHash } from 'node:crypto'
import type { ManifestSet } from '../../../manifest/manifest-set.ts'
import type { ProductRun } from '../../../registry/openlineage-runs.ts'
import { columnLineage } from './column-lineage-facet.ts'
import { datasetOf, type Naming, ownNamespace } from './dataset-names.ts'
import type { ToldRun } from './told-run.ts'

export type Facet = Readonly<Record<string, unknown>> & { readonly _producer: string; readonly _schemaURL: string }
type Facets = Readonly<Record<string, Facet>>

const SPECIFICATION = 'https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent'

/** @param release of the runtime */
export function runEvent(told: ToldRun, naming: Naming, release: string): Readonly<Record<string, unknown>> {
  // A package URL: the one address of a release that is the same wherever it is kept.
  const producer = `pkg:npm/%40sluice/runtime@${release}`
  const facet = (type: string, version: string, content: Readonly<Record<string, unknown>>): Facet => ({
    _producer: producer,
    _schemaURL: `https://openlineage.io/spec/facets/${version}/${type}.json#/$defs/${type}`,
    ...content,
  })
  return {
    eventType: told.event,
    eventTime: told.at.toISOString(),
    producer,
    schemaURL: SPECIFICATION,
    run: { runId: runUuid(told.of), facets: runFacets(told, release, facet) },
    job: {
      namespace: ownNamespace(naming),
      name: told.of.product,
      facets: jobFacets(told, facet),
    },
    inputs: inputsOf(told, naming, facet),
    outputs: [outputOf(told, naming, facet)],
  }
}

/** The namespace of names that are URLs, as RFC 9562 gives it. */
const URLS = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex')

/** Of version 5: the same for the same run and product, whoever tells of it and how often. */
export function runUuid({ runId, productId }: Pick<ProductRun, 'runId' | 'productId'>): string {
  const bytes = createHash('sha1').update(URLS).update(`sluice:${runId}/${productId}`).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x50
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

export type MakeFacet = (type: string, version: string, content: Readonly<Record<string, unknown>>) => Facet

function runFacets({ of, run, version, error }: ToldRun, release: string, facet: MakeFacet): Facets {
  const tag = (key: string, value: string | null | undefined) =>
    value === null || value === undefined ? [] : [{ key, value, source: 'SLUICE' }]
  const tags = [...tag('run', of.runId), ...tag('trigger', run?.trigger), ...tag('version', version)]
  return {
    processing_engine: facet('ProcessingEngineRunFacet', '1-1-1', { name: 'Sluice', version: release }),
    tags: facet('TagsRunFacet', '1-0-0', { tags }),
    ...(run?.trigger === 'schedule' && {
      nominalTime: facet('NominalTimeRunFacet', '1-0-1', { nominalStartTime: run.createdAt.toISOString() }),
    }),
    ...(error !== null && {
      errorMessage: facet('ErrorMessageRunFacet', '1-0-1', { message: error, programmingLanguage: 'SQL' }),
    }),
  }
}

function jobFacets({ manifests }: ToldRun, facet: MakeFacet): Facets {
  const kind = { processingType: 'BATCH', integration: 'SLUICE', jobType: 'MATERIALIZATION' }
  const owners = ownersOf(manifests)
  return {
    jobType: facet('JobTypeJobFacet', '2-0-4', kind),
    ...documentation(manifests, (content) => facet('DocumentationJobFacet', '1-1-0', content)),
    ...(owners.length > 0 && { ownership: facet('OwnershipJobFacet', '1-0-1', { owners }) }),
  }
}

function documentation(
  manifests: ManifestSet | null,
  facet: (content: Readonly<Record<string, unknown>>) => Facet,
): Facets {
  const description = manifests?.product.description ?? ''
  return description === '' ? {} : { documentation: facet({ description, contentType: 'text/plain' }) }
}

function ownersOf(manifests: ManifestSet | null) {
  const { team = null, email = null } = manifests?.product.owner ?? {}
  return [
    ...(team === null ? [] : [{ name: `team:${team}`, type: 'OWNER' }]),
    ...(email === null ? [] : [{ name: `user:${email}`, type: 'OWNER' }]),
  ]
}

function inputsOf({ manifests, inputs }: ToldRun, naming: Naming, facet: MakeFacet) {
  const found = new Map<string, object>()
  for (const input of manifests?.inputs ?? []) {
    const dataset = datasetOf(naming, input)
    const version = versionRead(inputs[input.name])
    // One table may be an input by several names.
    if (version === null && found.has(JSON.stringify(dataset))) continue
    const facets =
      version === null ? {} : { version: facet('DatasetVersionDatasetFacet', '1-0-1', { datasetVersion: version }) }
    found.set(JSON.stringify(dataset), { ...dataset, facets })
  }
  return [...found.values()]
}

/** The epoch of a product, the snapshot of a table in the lake. */
function versionRead(read: unknown): string | null {
  const { epoch, snapshot_id: snapshot } = (read ?? {}) as { readonly epoch?: unknown; readonly snapshot_id?: unknown }
  if (typeof epoch === 'number') return String(epoch)
  return typeof snapshot === 'string' ? snapshot : null
}

function outputOf(told: ToldRun, naming: Naming, facet: MakeFacet) {
  const { manifests, made } = told
  const owners = ownersOf(manifests)
  const lineage = columnLineage(told, naming)
  const assertions = assertionsOf(told)
  const facets = {
    ...(manifests !== null && {
      schema: facet('SchemaDatasetFacet', '1-2-0', {
        fields: manifests.output.columns.map(({ name, type, description }, index) => ({
          name,
          type,
          ...(description === '' ? {} : { description }),
          ordinal_position: index + 1,
        })),
      }),
    }),
    ...documentation(manifests, (content) => facet('DocumentationDatasetFacet', '1-1-0', content)),
    ...(owners.length > 0 && { ownership: facet('OwnershipDatasetFacet', '1-0-1', { owners }) }),
    ...(lineage !== null && { columnLineage: facet('ColumnLineageDatasetFacet', '1-2-0', lineage) }),
    ...(assertions.length > 0 && {
      dataQualityAssertions: facet('DataQualityAssertionsDatasetFacet', '1-1-0', { assertions }),
    }),
    ...(made !== null && {
      version: facet('DatasetVersionDatasetFacet', '1-0-1', { datasetVersion: String(made.epoch) }),
    }),
  }
  return {
    namespace: ownNamespace(naming),
    name: told.of.product,
    facets,
    outputFacets: statistics(made, facet),
  }
}

/** How each check came out, and nothing that it counted: that says something of rows. */
function assertionsOf({ checks, manifests }: ToldRun) {
  const judged = checks.filter(({ learning }) => learning !== true)
  return judged.map(({ name, passed, severity, reads, compared, expected }) => {
    const rule = manifests?.quality.checks.find((check) => check.name === name)?.rule
    const [column, ...others] = reads?.output ?? []
    return {
      assertion:
        expected !== undefined
          ? 'expectation'
          : compared === undefined
            ? (rule?.kind ?? 'carried_rows')
            : 'new_version',
      name,
      success: passed,
      severity,
      ...(column !== undefined && others.length === 0 ? { column } : {}),
    }
  })
}

function statistics(made: ToldRun['made'], facet: MakeFacet): Facets {
  if (made === null || made.rows === null) return {}
  const files = made.files === null ? {} : { size: made.files.bytes, fileCount: made.files.count }
  return { outputStatistics: facet('OutputStatisticsOutputDatasetFacet', '1-0-2', { rowCount: made.rows, ...files }) }
}
