import { parseInterval } from '@sluice/sdk'
import type { OutputDraft } from './check-output.ts'
import type { TimeseriesFields } from './files/serving.ts'
import { isTimeType, type OutputColumn } from './manifest-set.ts'
import type { Finding, JsonObject, Path } from './problem.ts'

/** timeseries: reads by time range. The config has met its schema. */
export function timeseriesDefaults(config: JsonObject, output: OutputDraft): JsonObject {
  const time = output.value.columns.find((column) => isTimeType(column.type))
  return {
    ...(time === undefined ? {} : { time_column: time.name }),
    chunk_interval: '1 day',
    continuous_aggregates: [],
    ...config,
  }
}

export function checkTimeseries(config: JsonObject, output: OutputDraft, path: Path): readonly Finding[] {
  const fields = config as TimeseriesFields
  return [...timeFindings(fields.time_column, output, path), ...aggregateFindings(fields, output, path)]
}

function timeFindings(name: string | undefined, output: OutputDraft, path: Path): readonly Finding[] {
  const at = [...path, 'time_column']
  if (name !== undefined) {
    const column = output.columns.get(name)
    return column === undefined ? output.columns.missing('serving', at, name) : timeColumnFindings(column, output, at)
  }
  const first = output.value.columns.find((column) => isTimeType(column.type))
  if (first !== undefined) return timeColumnFindings(first, output, path)
  if (!output.columns.complete) return []
  const message = 'timeseries needs a column of type date, timestamp or timestamptz, and output.yaml has none'
  return [{ manifest: 'serving', path, message }]
}

function timeColumnFindings(column: OutputColumn, output: OutputDraft, path: Path): readonly Finding[] {
  const at = { manifest: 'serving', path } as const
  if (!isTimeType(column.type)) {
    const message = `"${column.name}" is of type ${column.type}; time needs date, timestamp or timestamptz`
    return [{ ...at, message }]
  }
  if (output.isSensitive(column)) {
    const message = `"${column.name}" is classified ${column.classification}; a masked time cannot order rows`
    return [{ ...at, message, hint: 'Choose a time column that is public or internal.' }]
  }
  if (!column.nullable) return []
  const message = `"${column.name}" may be empty; rows without a time are not served by this endpoint`
  return [{ ...at, message, hint: 'Set nullable: false in output.yaml.', warning: true }]
}

function aggregateFindings(fields: TimeseriesFields, output: OutputDraft, path: Path): readonly Finding[] {
  const seen = new Set<string>()
  return (fields.continuous_aggregates ?? []).flatMap((aggregate, index): readonly Finding[] => {
    const at = [...path, 'continuous_aggregates', index]
    const interval = parseInterval(aggregate.interval)
    const key = interval === null ? aggregate.interval : `${interval.count} ${interval.unit}`
    const findings = [...output.columns.missingOf('serving', [...at, 'columns'], aggregate.columns)]
    if (seen.has(key)) {
      const message = `there is already an aggregate of ${key}`
      findings.push({ manifest: 'serving', path: [...at, 'interval'], message, hint: 'Name its columns there.' })
    }
    seen.add(key)
    return findings
  })
}
