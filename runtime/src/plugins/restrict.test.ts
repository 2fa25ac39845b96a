import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connector, ConnectorHost, ConnectorPlugin, ServingPlugin, ServingStore } from '@sluice/sdk'
import { restrictPlugin } from './restrict.ts'

const changes = { health: async () => ({ state: 'ok' }) }

const source = {
  kind: 'connector',
  capabilities: { modes: ['full', 'incremental', 'cdc'], csv: true },
  open: async () => ({ changes }) as unknown as Connector,
} as unknown as ConnectorPlugin

async function opened(on: readonly string[], off: readonly string[]): Promise<Connector> {
  return (restrictPlugin(source, on, off) as ConnectorPlugin).open({}, {} as ConnectorHost)
}

test('a source keeps its log where that is on, whatever else is off, and has none where it is not', async () => {
  const modes = ['mode full', 'mode incremental', 'mode cdc']
  assert.equal((await opened(modes, ['csv'])).changes, changes)
  assert.equal((await opened(['mode full', 'csv'], ['mode incremental', 'mode cdc'])).changes, undefined)
})

test('a store has the declared operations that are on, and no way to the others', async () => {
  const declared = Object.fromEntries(['search', 'near'].map((name) => [name, { summary: name }]))
  const asked: string[] = []
  const store = {
    kind: 'serving',
    configSchema: {},
    capabilities: { operations: ['scan'], filters: [], declared, limits: { maxReadRows: 10 } },
    open: async () =>
      ({
        async *operate(_: unknown, { operation }: { readonly operation: string }) {
          asked.push(operation)
          yield { rowCount: 0, columns: [], epoch: 1 }
        },
      }) as unknown as ServingStore,
  } as unknown as ServingPlugin
  const cut = restrictPlugin(store, ['operation scan', 'declared near'], ['declared search']) as ServingPlugin
  assert.deepEqual(Object.keys(cut.capabilities.declared ?? {}), ['near'])
  const { operate } = await cut.open({}, {} as never)
  const ask = async (operation: string) => {
    const plan = { operation, columns: [], limit: 1, policy: { visibleColumns: [] } } as never
    for await (const _ of operate?.({} as never, plan) ?? []) break
  }
  await ask('near')
  await assert.rejects(ask('search'), { kind: 'UNSUPPORTED' })
  assert.deepEqual(asked, ['near'])
})
