/**
 * The built-in realtime store, whose writes fail for as long as its trouble file says how: `transient` and `conflict`
 * refuse before anything is written, `held` waits, `lost` fails after the write was committed, as when an acknowledgement is
 * lost. It says that it can hold names of lower-case letters alone, and does not look: that is for the runtime to do.
 */
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineServingPlugin, type ServingPlugin, type ServingStore, SluiceError } from '@sluice/sdk'
import lmdb from '../../../plugins/realtime/lmdb/index.ts'

type Settings = Parameters<typeof lmdb.open>[0] & { readonly trouble: string }

export default defineServingPlugin<Settings, never>({
  ...(lmdb as unknown as ServingPlugin<Settings, never>),
  name: 'unreliable',
  capabilities: { ...lmdb.capabilities, limits: { ...lmdb.capabilities.limits, namePattern: '[a-z]+' } },
  settingsSchema: {
    ...lmdb.settingsSchema,
    properties: { ...lmdb.settingsSchema['properties'], trouble: { type: 'string' } },
  } as never,
  async open({ trouble, ...settings }, host) {
    const store = (await lmdb.open(settings as never, host)) as ServingStore<never>
    return {
      ...store,
      async write(target, changes, commit) {
        const read = () => (existsSync(trouble) ? readFileSync(trouble, 'utf8').trim() : '')
        while (read() === 'held') await sleep(20)
        const kind = read()
        if (kind === 'transient') throw new SluiceError('TRANSIENT', 'the store is away', { code: 'store_unavailable' })
        if (kind === 'conflict' && changes.mode === 'delta') {
          throw new SluiceError('CONFLICT', 'the store holds something else', { code: 'epoch_gap' })
        }
        const receipt = await store.write(target, changes, commit)
        if (kind === 'lost') throw new SluiceError('TRANSIENT', 'the answer was lost', { code: 'store_unavailable' })
        return receipt
      },
    }
  },
})
