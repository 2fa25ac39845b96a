/** The store that does nothing and says that all went well: whatever it passes is proven of nobody. */
import type { ServingPlugin } from '@sluice/sdk'
import reference, { type ReferenceConfig, type ReferenceSettings } from '../reference/index.ts'

const EMPTY_DIGEST = { rowCount: 0, sha256: '0'.repeat(64) }

export const nullStorePlugin: ServingPlugin<ReferenceSettings, ReferenceConfig> = {
  ...reference,
  name: 'nothing',
  async open() {
    return {
      provision: async () => ({ steps: [], hash: '' }),
      rls: {
        async install() {},
        describe: async () => ({ version: '1', tenantIsolation: 'forced', enforcedBy: 'nothing' }),
      },
      write: async (_target, changes, commit) => ({
        epoch: commit.epoch,
        outcome: 'applied',
        upserted: changes.upsertCount,
        deleted: changes.deleteCount,
      }),
      async *read(_target, plan) {
        const empty =
          plan.encoding === 'json' ? { rowCount: 0, json: '[]' } : { rowCount: 0, columns: plan.columns.map(() => []) }
        yield { ...empty, epoch: 1 }
      },
      recover: async () => null,
      validate: async () => [],
      async activate() {},
      digest: async () => EMPTY_DIGEST,
      drop: async () => ({ steps: [], hash: '' }),
      async dropTenant() {},
      probe: async () => ({ ok: true, checks: [] }),
      health: () => ({ status: 'ok' }),
      async close() {},
    }
  },
}
