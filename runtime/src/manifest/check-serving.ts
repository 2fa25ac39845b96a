import { didYouMean } from '../parsing/suggestion.ts'
import type { OutputDraft } from './check-output.ts'
import { checkVisualization, readVisualization, type VisualizationFields } from './check-visualization.ts'
import type { CheckedFile, Draft, Item } from './checked-file.ts'
import { repeated } from './checked-file.ts'
import type { ManifestContext, ServingType } from './context.ts'
import { checkLookup, lookupDefaults } from './endpoint-lookup.ts'
import { checkRealtime, realtimeDefaults } from './endpoint-realtime.ts'
import { checkTimeseries, timeseriesDefaults } from './endpoint-timeseries.ts'
import {
  AnalyticsFields,
  type EndpointFields,
  LookupFields,
  RealtimeFields,
  TimeseriesFields,
} from './files/serving.ts'
import type { ClassificationLevel, Endpoint, ServingManifest } from './manifest-set.ts'
import { outputSchema } from './manifest-set.ts'
import type { Finding, Json, JsonObject, Path } from './problem.ts'
import { isJsonObject, pathOfPointer } from './problem.ts'
import { checkShape, type Schema } from './shape-check.ts'

/** How the platform itself understands the config of the four types of the serving contract. */
interface ContractType {
  readonly schema: Schema
  defaults(config: JsonObject, output: OutputDraft): JsonObject
  check(config: JsonObject, output: OutputDraft, path: Path): readonly Finding[]
}

const CONTRACT_TYPES: ReadonlyMap<string, ContractType> = new Map<string, ContractType>([
  ['lookup', { schema: LookupFields, defaults: lookupDefaults, check: checkLookup }],
  ['timeseries', { schema: TimeseriesFields, defaults: timeseriesDefaults, check: checkTimeseries }],
  ['analytics', { schema: AnalyticsFields, defaults: (config) => config, check: () => [] }],
  ['realtime', { schema: RealtimeFields, defaults: realtimeDefaults, check: checkRealtime }],
])

/** serving.yaml with its defaults. Without a readable output.yaml, configs are held against their schemas only. */
export function readServing(
  file: CheckedFile,
  output: OutputDraft | null,
  context: ManifestContext,
  classification: ClassificationLevel | null,
): Draft<ServingManifest> {
  const items = file.items<EndpointFields>('endpoints')
  const findings: Finding[] = repeated(items, (endpoint) => endpoint.type).map((item) => ({
    manifest: 'serving',
    path: [...item.path, 'type'],
    message: `the product already has an endpoint of type ${item.value.type}`,
    hint: 'Make them one endpoint.',
  }))
  const endpoints: Endpoint[] = []
  for (const item of items) {
    const draft = readEndpoint(item, file, output, context)
    findings.push(...draft.findings)
    if (draft.value !== null) endpoints.push(draft.value)
  }
  const block = file.get<VisualizationFields>('visualization')
  const product = {
    columns: output === null || !output.columns.complete ? null : output.value.columns,
    endpoints: items.map((item) => item.value.type),
    classification,
  }
  findings.push(...checkVisualization(block, product, context.dashboards ?? null))
  return { value: { endpoints, visualization: readVisualization(block) }, findings }
}

function readEndpoint(
  { path, value }: Item<EndpointFields>,
  file: CheckedFile,
  output: OutputDraft | null,
  context: ManifestContext,
): Draft<Endpoint> {
  const served = context.servingTypes.get(value.type)
  if (served === undefined) return { value: null, findings: [unknownType(path, value.type, context)] }
  const raw = file.raw(...path, 'config')
  const config = withoutEmptyLists(raw !== undefined && isJsonObject(raw) ? raw : {})
  const at = [...path, 'config']
  const contract = CONTRACT_TYPES.get(value.type)
  const misfits = shapeFindings(config, at, served, contract)
  if (misfits.length > 0) return { value: null, findings: misfits }
  const described = { type: value.type, description: value.description ?? '' }
  if (output === null) return { value: { ...described, config }, findings: [] }
  const filled = withDefaults(config, served.configSchema)
  const complete = contract?.defaults(filled, output) ?? filled
  const own = contract?.check(config, output, at) ?? []
  const findings = [...own, ...storeFindings(path, complete, served, output, own)]
  return { value: { ...described, config: complete }, findings }
}

function unknownType(path: Path, type: string, context: ManifestContext): Finding {
  const message = `no store serves endpoints of type "${type}"`
  const hint = didYouMean(type, context.servingTypes.names)
  return { manifest: 'serving', path: [...path, 'type'], message, ...(hint === undefined ? {} : { hint }) }
}

/** The plugin's schema decides which fields there are; the contract's says what its own fields hold. */
function shapeFindings(
  config: JsonObject,
  path: Path,
  served: ServingType,
  contract: ContractType | undefined,
): readonly Finding[] {
  const ofPlugin = checkShape('serving', served.configSchema, config, path)
  if (contract === undefined) return ofPlugin
  const ofContract = checkShape('serving', contract.schema, config, path).filter((finding) => finding.atKey !== true)
  return [...ofContract, ...notSaidYet(ofPlugin, ofContract)]
}

function notSaidYet(more: readonly Finding[], said: readonly Finding[]): readonly Finding[] {
  const key = (finding: Finding): string => JSON.stringify(finding.path.map(String))
  const places = new Set(said.map(key))
  return more.filter((finding) => !places.has(key(finding)))
}

/** Of these fields an empty list says what their absence says, whatever a plugin's schema makes of it. */
const NONE_WHEN_EMPTY: ReadonlySet<string> = new Set(['tracked_columns', 'continuous_aggregates'])

function withoutEmptyLists(config: JsonObject): JsonObject {
  const isEmpty = (value: Json) => Array.isArray(value) && value.length === 0
  return Object.fromEntries(
    Object.entries(config).filter(([name, value]) => !NONE_WHEN_EMPTY.has(name) || !isEmpty(value)),
  )
}

/** The `default`s that a plugin's schema gives its top-level fields. */
function withDefaults(config: JsonObject, schema: Schema): JsonObject {
  const filled: Record<string, Json> = { ...config }
  const properties = typeof schema === 'object' && 'properties' in schema ? schema.properties : undefined
  for (const [name, property] of Object.entries(properties ?? {})) {
    if (Object.hasOwn(filled, name) || typeof property !== 'object' || property === null) continue
    if ('default' in property && property.default !== undefined)
      filled[name] = structuredClone(property.default) as Json
  }
  return filled
}

/** What the store itself says: types it cannot hold, histories it does not keep, its own check of the config. */
function storeFindings(
  path: Path,
  config: JsonObject,
  served: ServingType,
  output: OutputDraft,
  said: readonly Finding[],
): readonly Finding[] {
  const findings: Finding[] = []
  for (const column of output.value.columns) {
    const name = column.type.startsWith('decimal') ? 'decimal' : column.type
    if (served.types?.[name as keyof typeof served.types] !== 'rejected') continue
    const message = `the store cannot hold "${column.name}", which is of type ${column.type}`
    findings.push({ manifest: 'serving', path: [...path, 'type'], message })
  }
  const history = config.history_mode
  if (typeof history === 'string' && served.histories !== undefined) {
    if (!served.histories.some((mode) => mode === history)) {
      const message = `the store keeps no history of kind ${history}`
      const hint = `It keeps ${served.histories.join(', ')}.`
      findings.push({ manifest: 'serving', path: [...path, 'config', 'history_mode'], message, hint })
    }
  }
  if (!output.columns.complete || said.some((finding) => finding.warning !== true)) return findings
  const own = served.check?.(config, outputSchema(output.value)) ?? []
  return [
    ...findings,
    ...own.map(
      (problem): Finding => ({
        manifest: 'serving',
        path: [...path, 'config', ...pathOfPointer(problem.pointer)],
        message: problem.message,
        ...(problem.hint === undefined ? {} : { hint: problem.hint }),
      }),
    ),
  ]
}
