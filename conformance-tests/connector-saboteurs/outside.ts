/** Mistakes of connectors, by outsiders who had the contract and none of the checks. */
import { rowsOf } from '@sluice/sdk'
import { type ConnectorSaboteur, saboteur } from './wrap.ts'

export const outsideConnectors: readonly ConnectorSaboteur[] = [
  saboteur('tells the row that it rejects in its reason', ['C84'], (connector, { source }) => ({
    async *read(request) {
      const rows = [...(source.table(request.table)?.rows.values() ?? [])].filter(({ unfit }) => unfit !== undefined)
      for await (const event of connector.read(request)) {
        if (event.kind === 'reject') yield { ...event, reason: `${event.reason}: ${rows.map(({ row }) => row.join())}` }
        else yield event
      }
    },
  })),
  saboteur('goes on from a time that is ahead of its clock', ['C85'], (connector) => ({
    async *read(request) {
      let [last, at] = ['', -1]
      for await (const event of connector.read(request)) {
        if (event.kind === 'schema') at = event.schema.columns.findIndex(({ name }) => name === request.cursorColumn)
        if (event.kind === 'batch' && at >= 0)
          for (const row of rowsOf(event.batch)) if (String(row[at] ?? '') > last) last = String(row[at])
        const isMoved = event.kind === 'state' && last !== '' && event.state.value['from'] !== null
        yield isMoved ? { ...event, state: { ...event.state, value: { ...event.state.value, from: last } } } : event
      }
    },
  })),
  saboteur('goes on in the list of tables by number', ['C82'], (connector) => ({
    async discover({ after, limit }, signal) {
      if (after !== null && !/^after:\d+$/.test(after)) return connector.discover({ after, limit }, signal)
      const { tables } = await connector.discover({ after: null, limit: 100_000 }, signal)
      const from = after === null ? 0 : Number(after.slice('after:'.length))
      const page = tables.slice(from, from + limit)
      return { tables: page, next: from + page.length < tables.length ? `after:${from + page.length}` : null }
    },
  })),
  saboteur('names in its state every row that it has read', ['C83'], (connector) => ({
    async *read(request) {
      const seen = new Set((request.state?.value['seen'] ?? []) as readonly string[])
      for await (const event of connector.read(request)) {
        if (event.kind === 'batch') for (const [key] of rowsOf(event.batch)) seen.add(String(key))
        const isMoved = event.kind === 'state' && event.rows > 0
        yield isMoved
          ? { ...event, state: { ...event.state, value: { ...event.state.value, seen: [...seen] } } }
          : event
      }
    },
  })),
]
