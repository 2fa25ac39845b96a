/** Wraps what the reference connector tells of a log, with one promise broken. */
import type { ChangeEvent, ChangeSource, Value } from '@sluice/sdk'
import { csvRows } from '../connector-reading.ts'
import { csvLine } from '../csv.ts'
import type { SourceSettings } from '../reference-connector/settings.ts'
import { type ConnectorSaboteur, saboteur } from './wrap.ts'

type LogRequest = Parameters<ChangeSource['changes']>[0]
type Replace = (source: ChangeSource, settings: SourceSettings) => Partial<ChangeSource>
/** `_op`, `_seq`, `_unchanged`, `_from`, and the columns. */
export type Cells = readonly (string | null)[]

export function ofLog(name: string, caughtBy: readonly string[], replace: Replace): ConnectorSaboteur {
  return saboteur(name, caughtBy, ({ changes }, settings) =>
    changes ? { changes: { ...changes, ...replace(changes, settings) } } : {},
  )
}

export const telling =
  (change: (event: ChangeEvent, request: LogRequest) => readonly ChangeEvent[]): Replace =>
  (source) => ({
    async *changes(request) {
      for await (const event of source.changes(request)) yield* change(event, request)
    },
  })

/** The rows of each event changed, one into none or several; so counted. */
export function tellingRows(change: (row: Cells) => readonly Cells[]): Replace {
  return telling((event) => {
    if (event.kind !== 'rows') return [event]
    const rows = linesOf(event).flatMap(change)
    return rows.length === 0 ? [] : [{ ...event, chunk: Buffer.from(rows.map(csvLine).join('')), rows: rows.length }]
  })
}

export function linesOf({ chunk }: Extract<ChangeEvent, { kind: 'rows' }>): readonly Cells[] {
  return csvRows(Buffer.from(chunk).toString('utf8'), null) as readonly Cells[]
}

export function cells(change: (text: Value) => string | null): Replace {
  return tellingRows((row) => [[...row.slice(0, 4), ...row.slice(4).map(change)]])
}
