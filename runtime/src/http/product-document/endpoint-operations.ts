/** Reads of one product by its endpoints: lookup, timeseries, realtime. */
import { type TSchema, Type } from 'typebox'
import type { Route } from '../route.ts'
import {
  type About,
  answerExample,
  answering,
  columnsParameter,
  filterExample,
  filterParameter,
  type NarrowedOperation,
  narrowed,
  productRows,
  quotedNames,
  type Rows,
  rowsOf,
} from './narrowed-operation.ts'
import { exampleValue } from './row-schemas.ts'

/** Of a lookup that keeps a history, rows have more columns. */
export function lookupRows(about: About): Rows {
  const shown = about.readings.lookup?.row ?? []
  return shown.length === about.readings.row.length ? productRows(about) : rowsOf('LookupRow', shown, about)
}

export const realtimeRows = (about: About): Rows => rowsOf('RealtimeRow', about.readings.realtime?.row ?? [], about)

export function lookupOperation(route: Route, about: About): NarrowedOperation | null {
  const way = about.readings.lookup
  if (way === null) return null
  const { schema, shown } = lookupRows(about)
  const history = way.keepsHistory ? {} : { at: null, history: null }
  const changed = { columns: columnsParameter(shown), filter: filterParameter(way.filters), ...history }
  return {
    route: answering(narrowed(route, about, changed), schema),
    example: {
      query: { ...filterExample(way.filters), limit: 1 },
      answers: answerExample(shown, about, 'lookup:postgresql'),
    },
  }
}

const BUCKETS = {
  type: 'object',
  description: 'With `interval`: its begin, and of columns what the store keeps: count, sum, avg, min and max.',
  required: ['bucket'],
  properties: { bucket: { type: 'string' } },
  additionalProperties: true,
}

export function timeseriesOperation(route: Route, about: About): NarrowedOperation | null {
  const way = about.readings.timeseries
  if (way === null) return null
  const { schema, shown } = productRows(about)
  const { intervals } = way
  const changed = {
    columns: columnsParameter(shown),
    filter: filterParameter(way.filters),
    interval: intervals.length === 0 ? null : intervalParameter(intervals),
  }
  const answered = intervals.length === 0 ? schema : Type.Unsafe({ anyOf: [schema, BUCKETS] })
  return {
    route: answering(narrowed(route, about, changed), answered),
    example: {
      query: { from: '2026-01-01', to: '2026-01-31', order: 'desc', limit: 1 },
      answers: answerExample(shown, about, 'timeseries:postgresql'),
    },
  }
}

const intervalParameter = (intervals: readonly string[]): TSchema =>
  Type.Unsafe({ enum: intervals, description: 'Reads the continuous aggregate of that interval.' })

export function realtimeOperation(route: Route, about: About): NarrowedOperation | null {
  const way = about.readings.realtime
  const template = about.keyTemplate
  if (way === null || template === null) return null
  const { schema, shown } = realtimeRows(about)
  const key = Type.Unsafe({
    type: 'string',
    minLength: 1,
    maxLength: 4096,
    description: `The key of a row, made of ${quotedNames(way.key)}: as answers tell them, or percent-encoded as the store renders them.`,
  })
  const values = new Map(way.key.map((column) => [column.name, String(exampleValue(column))]))
  const parts = template.parts.map(({ before, column }) => `${before}${values.get(column) ?? ''}`)
  return {
    route: answering(narrowed(route, about, { columns: columnsParameter(shown), key }), schema),
    example: {
      query: { key: `${parts.join('')}${template.after}` },
      answers: answerExample(shown, about, 'realtime:lmdb'),
    },
  }
}
