/** Every pure hook of a plugin of stores has a caller that listens: one that lies there changes what the runtime does. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { ServingPlugin } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { servingTypesOf } from '../../manifest/context.ts'
import { askedBy, servedBy } from './operation-under-test.fixture.ts'
import { viewOf } from './read-view.ts'
import { SCHEMA, storeAt } from './ways-of-reading.fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: whatever its settings and config are
type Plugin = ServingPlugin<any, any>
type Hook = 'checkConfig' | 'readColumns' | 'selects'

interface Lie {
  tell(plugin: Plugin): Partial<Plugin>
  outcome(lying: (plugin: Plugin) => Plugin): Promise<unknown>
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { readonly code?: string }).code,
  )

async function served(type: string, lying: (plugin: Plugin) => Plugin) {
  const [{ plugin, store }, clear, masked] = await storeAt(type, 1, {})
  const serving = { type, plugin: lying(plugin), store }
  const copies = [
    { target: clear, maskedColumns: [] },
    { target: masked, maskedColumns: ['name'] },
  ]
  return { serving, product: servedBy(serving, copies, { name: 'pii.name' }) }
}

const LIES: Readonly<Record<Hook, Lie>> = {
  checkConfig: {
    tell: () => ({ checkConfig: () => [{ pointer: '/index_columns/0', message: 'there is no such column' }] }),
    async outcome(lying) {
      const { serving } = await served('lookup', lying)
      return servingTypesOf([{ ...serving.plugin, type: 'lookup' }])
        .get('lookup')
        ?.check?.({}, SCHEMA)
    },
  },
  readColumns: {
    tell: () => ({ readColumns: () => [{ name: 'kept', type: 'double', nullable: true }] }),
    async outcome(lying) {
      const { product } = await served('timeseries', lying)
      const viewer = { subject: 'vito', groups: [], isAdmin: false, isDeveloper: false, isViewer: true } as unknown
      const rules = { sensitive: [], strategies: {} } as never
      return viewOf(product, viewer as Principal, { type: 'timeseries' } as never, rules).schema.columns
    },
  },
  selects: {
    tell: () => ({ selects: () => ['name'] }),
    async outcome(lying) {
      const { serving, product } = await served('reference', (plugin) => lying({ ...plugin, selects: () => ['id'] }))
      const asked = { input: { column: 'name', text: 'an' }, columns: ['id'] }
      return codeOf(askedBy(serving, product, asked, ['pii.name']))
    },
  },
}

for (const [hook, { tell, outcome }] of Object.entries(LIES)) {
  test(`a plugin that lies in ${hook} changes what the runtime does`, async () => {
    const told = await outcome((plugin) => plugin)
    assert.deepEqual(await outcome((plugin) => plugin), told)
    assert.notDeepEqual(await outcome((plugin) => ({ ...plugin, ...tell(plugin) })), told)
  })
}

test('every hook of the contract is tried here', async () => {
  const source = await readFile(join(import.meta.dirname, '../../../../sdk/plugin.ts'), 'utf8')
  const from = source.slice(source.indexOf('export interface ServingPlugin'))
  const hooks = [...from.slice(0, from.indexOf('\n}')).matchAll(/^ {2}(\w+)\??\(/gm)].map(([, name]) => name)
  // Without open there is no store to ask anything.
  assert.deepEqual(hooks.sort(), [...Object.keys(LIES), 'open'].sort())
})
