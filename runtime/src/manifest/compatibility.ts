import { parseInterval, parseTtl } from '@sluice/sdk'
import type { Change, Verdict } from './compatibility-change.ts'
import { compareColumns, compareWriting, sharesHistory } from './compatibility-columns.ts'
import { canonical } from './digest.ts'
import type { LookupFields, RealtimeFields, TimeseriesFields } from './files/serving.ts'
import { type Endpoint, type ManifestSet, outputSchema } from './manifest-set.ts'
import type { JsonObject } from './problem.ts'

export interface Compatibility {
  /** The gravest verdict of all changes. */
  readonly verdict: Verdict
  /** The gravest first. */
  readonly changes: readonly Change[]
}

const GRAVITY: Readonly<Record<Verdict, number>> = { compatible: 0, additive: 1, breaking: 2 }

/** Compares a version with the live one. Pure; two sets of one digest differ at most in defaults that came between them. */
export function compareManifests(live: ManifestSet, next: ManifestSet): Compatibility {
  const changes = [
    ...compareColumns(live.output, next.output),
    ...compareWriting(live, next),
    ...compareEndpoints(live, next),
  ].toSorted((a, b) => GRAVITY[b.verdict] - GRAVITY[a.verdict])
  return { verdict: changes[0]?.verdict ?? 'compatible', changes }
}

function compareEndpoints(live: ManifestSet, next: ManifestSet): readonly Change[] {
  const schemas = [outputSchema(live.output), outputSchema(next.output)] as const
  const types = new Set([...live.serving.endpoints, ...next.serving.endpoints].map((endpoint) => endpoint.type))
  return [...types].flatMap((type): readonly Change[] => {
    const before = live.serving.endpoints.find((endpoint) => endpoint.type === type)
    const after = next.serving.endpoints.find((endpoint) => endpoint.type === type)
    const subject = `serving.${type}`
    if (after === undefined) return [{ verdict: 'breaking', subject, reason: `the ${type} endpoint goes away` }]
    if (before === undefined) return [{ verdict: 'additive', subject, reason: `a ${type} endpoint is added` }]
    const changes = canonical(before.config) === canonical(after.config) ? [] : compareConfigs(before, after, subject)
    const isCut = keepsHistory(before) && keepsHistory(after) && !sharesHistory(...schemas)
    return isCut ? [...changes, newHistory(subject)] : changes
  })
}

function keepsHistory({ config }: Endpoint): boolean {
  return ((config as LookupFields).history_mode ?? 'current') !== 'current'
}

function newHistory(subject: string): Change {
  const reason = 'the history begins anew with this version: it has another key, or types that do not hold what was'
  return { verdict: 'breaking', subject: `${subject}.history_mode`, reason }
}

function compareConfigs(before: Endpoint, after: Endpoint, subject: string): readonly Change[] {
  switch (after.type) {
    case 'lookup':
      return compareLookup(before.config, after.config, subject)
    case 'timeseries':
      return compareTimeseries(before.config, after.config, subject)
    case 'realtime':
      return compareRealtime(before.config, after.config, subject)
    default:
      // What a plugin's fields mean to readers is unknown here.
      return [{ verdict: 'breaking', subject, reason: `the config of the ${after.type} endpoint changes` }]
  }
}

function compareLookup(before: JsonObject, after: JsonObject, subject: string): readonly Change[] {
  const [old, now] = [before as LookupFields, after as LookupFields]
  const [oldMode, mode] = [old.history_mode ?? 'current', now.history_mode ?? 'current']
  const changes = [
    ...compareLists(old.index_columns ?? [], now.index_columns ?? [], `${subject}.index_columns`, 'filter'),
  ]
  const [oldTracked, tracked] = [old.tracked_columns ?? [], now.tracked_columns ?? []]
  if (oldMode !== mode) {
    const verdict = oldMode === 'current' ? 'additive' : 'breaking'
    const reason = `history_mode changes from ${oldMode} to ${mode}`
    changes.push({ verdict, subject: `${subject}.history_mode`, reason })
  } else if (mode === 'type_3') {
    changes.push(...compareLists(oldTracked, tracked, `${subject}.tracked_columns`, 'previous value'))
  } else if (canonical(oldTracked.toSorted()) !== canonical(tracked.toSorted())) {
    const reason = 'other columns make new historical records'
    changes.push({ verdict: 'compatible', subject: `${subject}.tracked_columns`, reason })
  }
  return changes
}

/** Columns that readers could use in some way, and now can or cannot. */
function compareLists(before: readonly string[], after: readonly string[], subject: string, use: string): Change[] {
  const gone = before.filter((column) => !after.includes(column))
  const added = after.filter((column) => !before.includes(column))
  return [
    ...gone.map(
      (column): Change => ({ verdict: 'breaking', subject, column, reason: `no ${use} by ${column} any more` }),
    ),
    ...added.map(
      (column): Change => ({ verdict: 'additive', subject, column, reason: `a ${use} by ${column} is added` }),
    ),
  ]
}

function compareTimeseries(before: JsonObject, after: JsonObject, subject: string): readonly Change[] {
  const [old, now] = [before as TimeseriesFields, after as TimeseriesFields]
  const changes: Change[] = []
  if (old.time_column !== now.time_column) {
    const reason = `the time column changes from ${old.time_column} to ${now.time_column}`
    changes.push({ verdict: 'breaking', subject: `${subject}.time_column`, reason })
  }
  if (old.chunk_interval !== now.chunk_interval) {
    const reason = `chunks of ${old.chunk_interval} become chunks of ${now.chunk_interval}`
    changes.push({ verdict: 'compatible', subject: `${subject}.chunk_interval`, reason })
  }
  const aggregates = `${subject}.continuous_aggregates`
  return [...changes, ...compareLists(aggregateColumns(old), aggregateColumns(now), aggregates, 'kept aggregate')]
}

/** `revenue a 1 week`, so that one text stands for one thing that readers may ask for. */
function aggregateColumns(fields: TimeseriesFields): readonly string[] {
  return (fields.continuous_aggregates ?? []).flatMap(({ interval, columns }) => {
    const parsed = parseInterval(interval)
    const every = parsed === null ? interval : `${parsed.count} ${parsed.unit}`
    return columns.map((column) => `${column} per ${every}`)
  })
}

function compareRealtime(before: JsonObject, after: JsonObject, subject: string): readonly Change[] {
  const [old, now] = [before as RealtimeFields, after as RealtimeFields]
  const changes: Change[] = []
  if (old.key_template !== now.key_template) {
    const reason = 'keys are made in another way, so that the keys readers know find nothing'
    changes.push({ verdict: 'breaking', subject: `${subject}.key_template`, reason })
  }
  const [oldTtl, ttl] = [parseTtl(old.ttl ?? '24h') ?? 0, parseTtl(now.ttl ?? '24h') ?? 0]
  if (oldTtl !== ttl) {
    const reason = `keys live ${ttl < oldTtl ? 'shorter' : 'longer'}: ${now.ttl} instead of ${old.ttl}`
    changes.push({ verdict: 'compatible', subject: `${subject}.ttl`, reason })
  }
  const [oldColumns, columns] = [old.include_columns ?? [], now.include_columns ?? []]
  return [...changes, ...compareLists(oldColumns, columns, `${subject}.include_columns`, 'read')]
}
