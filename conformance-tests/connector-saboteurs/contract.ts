/** Mistakes of connectors that were written from the contract alone, before any check was looked at. */
import { type ChangeEvent, type ChangePosition, SluiceError } from '@sluice/sdk'
import { csvLine } from '../csv.ts'
import { type ConnectorSaboteur, saboteur } from './wrap.ts'
import { type Cells, linesOf, ofLog, telling } from './wrap-log.ts'

const forever = () => new AbortController().signal

type Rows = Extract<ChangeEvent, { kind: 'rows' }>

const rowsEvent = (event: Rows, rows: readonly Cells[]): Rows => ({
  ...event,
  chunk: Buffer.from(rows.map(csvLine).join('')),
  rows: rows.length,
})

/** The events of each transaction changed together. */
async function* byTransaction(events: AsyncIterable<ChangeEvent>, change: (events: ChangeEvent[]) => ChangeEvent[]) {
  let held: ChangeEvent[] = []
  for await (const event of events) {
    held.push(event)
    if (event.kind !== 'checkpoint') continue
    yield* change(held)
    held = []
  }
}

const markOf = (streams: readonly { readonly marks?: boolean }[], stream: number) => streams[stream]?.marks === true

export const contractConnectors: readonly ConnectorSaboteur[] = [
  ofLog('says changed for what others change', ['C74'], (source, { source: { log } }) => ({
    async awaitChanges(request) {
      const news = source.awaitChanges?.(request) as Promise<{ kind: 'changed' }>
      const others = async () => {
        while (log.after(request.after.order).length === 0) await log.news()
        return { kind: 'changed' } as const
      }
      return Promise.race([news, others()])
    },
  })),
  ofLog('waits for what comes after it was called', ['C74'], (source, { source: { log } }) => ({
    async awaitChanges(request) {
      const after = log.head > request.after.order ? { ...request.after, order: log.head } : request.after
      return source.awaitChanges?.({ ...request, after }) as Promise<{ kind: 'changed' }>
    },
  })),
  ofLog('waits on although its caller has left', ['C75'], (source) => ({
    async awaitChanges(request) {
      return source.awaitChanges?.({ ...request, signal: forever() }) as Promise<{ kind: 'changed' }>
    },
  })),
  ofLog('waits where the position is lost', ['C75'], (source) => ({
    async awaitChanges(request) {
      try {
        return (await source.awaitChanges?.(request)) as { kind: 'changed' }
      } catch (error) {
        if (error instanceof SluiceError && error.code === 'position_lost')
          return { kind: 'quiet', position: request.after }
        throw error
      }
    },
  })),
  ofLog('lets the source forget what it has waited for', ['C74'], (source, { source: { log } }) => ({
    async awaitChanges(request) {
      const news = (await source.awaitChanges?.(request)) as { kind: 'changed' }
      log.ack(request.capture, log.head)
      return news
    },
  })),
  ofLog('carries a reject and names no column in the row', ['C73'], (source) => ({
    async *changes(request) {
      for await (const event of source.changes(request)) {
        const isMarked = event.kind === 'rows' && markOf(request.streams, event.stream)
        yield isMarked
          ? rowsEvent(
              event,
              linesOf(event).map((row) => [...row.slice(0, -1), null]),
            )
          : event
      }
    },
  })),
  ofLog('gives marks up to the second schema', ['C73'], (source) => ({
    async *changes(request) {
      const schemas = new Map<number, number>()
      for await (const event of source.changes(request)) {
        if (event.kind === 'schema') schemas.set(event.stream, (schemas.get(event.stream) ?? 0) + 1)
        const isLater = 'stream' in event && (schemas.get(event.stream) ?? 0) > 1
        if (!isLater || !markOf(request.streams, event.stream)) yield event
        else if (event.kind === 'schema') {
          const { marks: _, ...rest } = event
          yield rest
        } else if (event.kind === 'rows')
          yield rowsEvent(
            event,
            linesOf(event).map((row) => row.slice(0, -1)),
          )
        else yield event
      }
    },
  })),
  ofLog('gives marks to who has not asked', ['C73'], (source) => ({
    changes: (request) =>
      source.changes({ ...request, streams: request.streams.map((stream) => ({ ...stream, marks: true })) }),
  })),
  ofLog('marks a row on after its value has come', ['C73'], (source) => {
    const lacked = new Map<string, string>()
    return {
      async *changes(request) {
        let key: readonly number[] = []
        for await (const event of source.changes(request)) {
          if (event.kind === 'schema') {
            key = event.schema.primaryKey.map((name) => event.schema.columns.findIndex((one) => one.name === name))
          }
          if (event.kind !== 'rows' || !markOf(request.streams, event.stream)) {
            yield event
            continue
          }
          yield rowsEvent(
            event,
            linesOf(event).map((row) => {
              const mark = row.at(-1) ?? null
              const id = `${request.capture} ${event.stream} ${key.map((index) => row[4 + index]).join()}`
              if (mark !== null) lacked.set(id, mark)
              return row[0] === 'u' ? [...row.slice(0, -1), lacked.get(id) ?? null] : row
            }),
          )
        }
      },
    }
  }),
  ofLog('takes a key of other case for the same', ['C76'], (source) => ({
    async *changes(request) {
      for await (const event of source.changes(request)) {
        if (event.kind !== 'rows') {
          yield event
          continue
        }
        const rows: Cells[] = []
        for (const row of linesOf(event)) {
          const former = rows.at(-1)
          const key = (one: Cells) => one.slice(4).filter((cell) => cell !== null)
          const from = row[3] === null || row[3] === undefined ? null : (JSON.parse(row[3]) as string[])
          const isSame =
            from !== null &&
            former?.[0] === 'd' &&
            from.every((text, index) =>
              key(row).some(
                (cell) => cell?.toLowerCase() === key(former)[index]?.toLowerCase() && text === key(former)[index],
              ),
            )
          if (isSame) rows.splice(-1, 1, [...row.slice(0, 3), null, ...row.slice(4)])
          else rows.push(row)
        }
        yield rowsEvent(event, rows)
      }
    },
  })),
  ofLog('lets the source forget what was sent', ['C77'], (source) => {
    const sent = new Map<string, ChangePosition>()
    return {
      async *changes(request) {
        for await (const event of source.changes(request)) {
          if (event.kind === 'checkpoint') sent.set(request.capture, event.position)
          yield event
        }
      },
      ack: (request) => {
        const last = sent.get(request.capture)
        const isAhead = last?.lineage === request.position.lineage && last.order > request.position.order
        return source.ack(isAhead ? { ...request, position: last } : request)
      },
    }
  }),
  ofLog('releases captures by LIKE', ['C77'], (source, { source: { log } }) => ({
    async release(request) {
      request.signal.throwIfAborted()
      const like = new RegExp(`^${request.capture.replaceAll('_', '.')}$`)
      for (const name of log.captures) if (like.test(name)) log.release(name)
      return source.release(request)
    },
  })),
  ofLog('empties a table before the rows of the same transaction', ['C45'], (source) => ({
    changes: (request) =>
      byTransaction(source.changes(request), (events) => {
        const truncates = events.filter(({ kind }) => kind === 'truncate')
        if (truncates.length === 0) return events
        const schemas = events.filter(({ kind }) => kind === 'schema')
        const rest = events.filter(({ kind }) => kind !== 'truncate' && kind !== 'schema')
        const first = rest.find((event) => event.kind === 'rows' || event.kind === 'reject')
        const seq =
          first?.kind === 'rows' ? String(linesOf(first)[0]?.[1]) : first?.kind === 'reject' ? first.seq : null
        const moved = truncates.map((event) =>
          event.kind === 'truncate' && seq !== null && seq < event.seq
            ? { ...event, seq: `${seq.slice(0, -1)}!` }
            : event,
        )
        return [...schemas, ...moved, ...rest]
      }),
  })),
  ofLog('does not tell that a key between two others is gone', ['C44'], (source) => ({
    changes: (request) =>
      byTransaction(source.changes(request), (events) => {
        const made = new Set<string>()
        return events.map((event) => {
          if (event.kind !== 'rows') return event
          const kept = linesOf(event).filter((row) => {
            const key = `${event.stream} ${JSON.stringify(
              row
                .slice(4)
                .filter((cell) => cell !== null)
                .slice(0, 1),
            )}`
            if (row[0] === 'u' && row[3] !== null) made.add(key)
            return !(row[0] === 'd' && made.has(key))
          })
          const rows = kept.map((row) => row)
          return rowsEvent(event, rows)
        })
      }),
  })),
  saboteur('goes on behind a page by names in lower case', ['C78'], (connector) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      const after = page.after?.replace(/^after:/, '').toLowerCase()
      return { ...found, tables: found.tables.filter(({ name }) => after === undefined || name.toLowerCase() > after) }
    },
  })),
  ofLog('leaves a session behind where the log is left before its end', ['C60'], (source, settings) => ({
    async *changes(request) {
      let isDone = false
      try {
        for await (const event of source.changes(request)) yield event
        isDone = true
      } finally {
        if (!isDone) settings.source.sessions += 1
      }
    },
  })),
  ofLog('knows a stream again that was taken away', ['C58'], (source) => {
    return {
      async prepare(request) {
        const prepared = await source.prepare(request)
        const plain = (text: string) => text.split('.').slice(0, 2).join('.')
        return {
          ...prepared,
          incarnations: (prepared.incarnations ?? []).map((one) => ({ ...one, incarnation: plain(one.incarnation) })),
        }
      },
    }
  }),
  ofLog(
    'gives the time of the source in its own zone',
    ['C40'],
    telling((event) =>
      event.kind === 'checkpoint' && event.sourceTime !== null
        ? [{ ...event, sourceTime: event.sourceTime.replace('Z', '+02:00') }]
        : [event],
    ),
  ),
  ofLog(
    'counts within a transaction without padding',
    ['C41'],
    telling((event) => {
      const plain = (seq: string | null | undefined) => String(seq).replace(/\.0*(\d)/, '.$1')
      if (event.kind === 'truncate' || event.kind === 'reject') return [{ ...event, seq: plain(event.seq) }]
      if (event.kind !== 'rows') return [event]
      return [
        rowsEvent(
          event,
          linesOf(event).map((row) => [row[0] ?? null, plain(row[1]), ...row.slice(2)]),
        ),
      ]
    }),
  ),
]
