/** Connectors that are wrong about where a log is read on, what is kept of it, and which tables it tells. */
import { SluiceError } from '@sluice/sdk'
import type { SourceSettings } from '../reference-connector/settings.ts'
import { type ConnectorSaboteur, saboteur } from './wrap.ts'
import { ofLog, telling } from './wrap-log.ts'

const PLACES: readonly ConnectorSaboteur[] = [
  ofLog('puts a checkpoint into a transaction', ['C49'], (source) => ({
    async *changes(request) {
      let before = request.after
      for await (const event of source.changes(request)) {
        yield event
        if (event.kind === 'checkpoint') before = event.position
        if (event.kind === 'rows') yield { kind: 'checkpoint', position: before, sourceTime: null }
      }
    },
  })),
  ofLog('tells what was rolled back', ['C50'], (source, { source: memory }) => {
    tellUndone(memory)
    return source
  }),
  ofLog('tells the last transaction again', ['C51'], (source, { source: memory }) => ({
    changes(request) {
      const { after } = request
      const acked = memory.log.place(request.capture)?.acked ?? after.order
      const order = String(Math.max(Number(after.order) - 1, Number(acked))).padStart(after.order.length, '0')
      return source.changes({ ...request, after: { ...after, order } })
    },
  })),
  ofLog('goes on after one transaction more', ['C51'], (source, { source: memory }) => ({
    changes(request) {
      const { after, capture } = request
      const isBegin = after.order === memory.log.place(capture)?.acked
      const order = String(Math.min(Number(after.order) + (isBegin ? 0 : 1), Number(memory.log.head)))
      return source.changes({ ...request, after: { ...after, order: order.padStart(after.order.length, '0') } })
    },
  })),
  ofLog('lets go of what it has sent', ['C52'], (source, { source: memory }) => ({
    async *changes(request) {
      for await (const event of source.changes(request)) {
        if (event.kind === 'checkpoint') memory.log.ack(request.capture, event.position.order)
        yield event
      }
    },
  })),
  ofLog('keeps what was acknowledged', ['C52'], () => ({ ack: async () => undefined })),
  ofLog('lets go of more than was acknowledged', ['C52'], (source, { source: memory }) => ({
    async ack(request) {
      await source.ack(request)
      memory.log.ack(request.capture, memory.log.head)
    },
  })),
  ofLog('says that a source keeps nothing', ['C52'], (source) => ({
    health: async (request) => ({ ...(await source.health(request)), retainedBytes: 0 }),
  })),
  ofLog('begins later in silence', ['C53', 'C55'], (source, { source: memory }) => ({
    async *changes(request) {
      try {
        yield* source.changes(request)
      } catch (error) {
        if (!(error instanceof SluiceError) || error.code !== 'position_lost') throw error
        yield { kind: 'checkpoint', position: { ...request.after, order: memory.log.head }, sourceTime: null }
      }
    },
  })),
  ofLog('takes a position of any lineage', ['C53'], (source, { source: memory }) => ({
    async *changes(request) {
      const lineage = memory.log.place(request.capture)?.lineage ?? request.after.lineage
      for await (const event of source.changes({ ...request, after: { ...request.after, lineage } }))
        yield event.kind === 'checkpoint'
          ? { ...event, position: { ...event.position, lineage: request.after.lineage } }
          : event
    },
  })),
  ofLog('calls a position that is lost a source that is away', ['C53'], (source) => ({
    async *changes(request) {
      try {
        yield* source.changes(request)
      } catch (error) {
        throw error instanceof SluiceError && error.code === 'position_lost'
          ? new SluiceError('TRANSIENT', 'try again', { code: 'later' })
          : error
      }
    },
  })),
  ofLog('says ok of a log that is gone', ['C53', 'C61'], (source) => ({
    async health(request) {
      const health = await source.health(request)
      return health.state === 'lost' ? { ...health, state: 'ok' } : health
    },
  })),
  ofLog('makes a place whenever it prepares', ['C54'], (source) => ({
    prepare: (request) => source.prepare({ ...request, anew: true }),
  })),
  ofLog('leaves its place at the source', ['C55'], () => ({ release: async () => undefined })),
  ofLog('releases a capture that is not there by an error', ['C55'], (source, { source: memory }) => ({
    async release(request) {
      if (memory.log.place(request.capture)) return source.release(request)
      throw new SluiceError('INVALID_DATA', 'there is no such capture', { code: 'capture_missing' })
    },
  })),
  ofLog('acknowledges for all captures', ['C56'], (source, { source: memory }) => ({
    async ack(request) {
      await source.ack(request)
      for (const capture of memory.log.captures) memory.log.ack(capture, request.position.order)
    },
  })),
  ofLog('releases all captures with one', ['C56'], (source, { source: memory }) => ({
    async release(request) {
      await source.release(request)
      for (const capture of memory.log.captures) memory.log.release(capture)
    },
  })),
]

/** What is taken back stands in the log all the same. */
function tellUndone(memory: SourceSettings['source']): void {
  const begin = Object.getPrototypeOf(memory).transaction as SourceSettings['source']['transaction']
  memory.transaction = () => {
    const transaction = begin.call(memory)
    const write = transaction.write.bind(transaction)
    transaction.write = async (one) => {
      await write(one)
      if (one.kind !== 'insert') return
      const of = memory.named(one.table.name)
      memory.log.append(one.rows.map((row) => ({ kind: 'row', op: 'u', of, row, unchanged: [], from: null })))
    }
    return transaction
  }
}

const TABLES: readonly ConnectorSaboteur[] = [
  ofLog(
    'tells a table of its log as it was before',
    ['C57'],
    telling((event) =>
      event.kind === 'schema'
        ? [{ ...event, schema: { ...event.schema, columns: event.schema.columns.slice(0, 6) } }]
        : [event],
    ),
  ),
  ofLog('does not say that a table is to be read whole', ['C58'], (source, settings) => ({
    ...telling((event) => (event.kind === 'schema' ? [{ ...event, mustReread: false }] : [event]))(source, settings),
    async prepare(request) {
      const prepared = await source.prepare(request)
      return { ...prepared, incarnations: prepared.incarnations?.map((one) => ({ ...one, incarnation: 'one' })) ?? [] }
    },
  })),
  ofLog('calls each look at a table another incarnation', ['C58'], (source) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      LOOKS.count += 1
      const seen = (prepared.incarnations ?? []).map((one) => ({ ...one, incarnation: `look ${LOOKS.count}` }))
      return { ...prepared, incarnations: seen }
    },
  })),
  ofLog('does not notice that a table was left out for a while', ['C58'], (source) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      const incarnations = prepared.incarnations ?? []
      const known = (text: string) => text.split('.').slice(0, 2).join('.')
      return { ...prepared, incarnations: incarnations.map((one) => ({ ...one, incarnation: known(one.incarnation) })) }
    },
  })),
  ofLog('refuses tables without a remedy', ['C59'], (source) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      return { ...prepared, refused: prepared.refused.map((one) => ({ ...one, remedy: '' })) }
    },
  })),
  ofLog('refuses nothing', ['C59'], (source) => ({
    prepare: async (request) => ({ ...(await source.prepare(request)), refused: [] }),
  })),
  ofLog('makes a place to find out what it would refuse', ['C59'], (source) => ({
    async refusals({ streams, signal }) {
      return (await source.prepare({ capture: 'looked', streams, signal })).refused
    },
  })),
  ofLog('has the source refuse writes to what its log cannot tell', ['C59'], (source, { source: memory }) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      for (const { code, table } of prepared.refused) if (code === 'changes_no_identity') memory.locked.add(table)
      return prepared
    },
  })),
  ofLog('reads its log on though nobody waits', ['C60'], (source) => ({
    changes: (request) => source.changes({ ...request, signal: new AbortController().signal }),
  })),
  ofLog('keeps a session for each log that is left', ['C60'], (source, { source: memory }) => ({
    async *changes(request) {
      memory.sessions += 1
      yield* source.changes(request)
      memory.sessions -= 1
    },
  })),
  ofLog('prepares for whoever has left', ['C60'], (source, { source: memory }) => ({
    prepare(request) {
      if (request.signal.aborted) memory.log.prepare(request.capture, [], false)
      return source.prepare(request)
    },
  })),
  saboteur('makes places after it was closed', ['C60'], (connector, { source: memory }) => {
    let isClosed = false
    const { changes: source } = connector
    return {
      async close() {
        isClosed = true
        await connector.close()
      },
      ...(source && {
        changes: {
          ...source,
          prepare(request) {
            if (isClosed) memory.log.prepare(request.capture, [], false)
            return source.prepare(request)
          },
        },
      }),
    }
  }),
  ofLog('does not say that its source is about to let go', ['C61'], (source) => ({
    async health(request) {
      const health = await source.health(request)
      return health.state === 'at_risk' ? { ...health, state: 'ok' } : health
    },
  })),
]

const LOOKS = { count: 0 }

export const logPlaceSaboteurs: readonly ConnectorSaboteur[] = [...PLACES, ...TABLES]
