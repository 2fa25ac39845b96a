/** What a start says of a lake in a folder that is not where the registry knows it, or not the registry's own. */
import type { ObjectStore } from '@sluice/iceberg'
import { type Logger, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { PluginSet } from '../plugins/plugin-set.ts'
import { loseCopies } from '../registry/endpoint-states.ts'
import { hasHadTenants } from '../registry/tenants.ts'

/** A lake beside a registry that has never had a tenant has lost its own: a folder that was not put back, another database. */
export async function checkLakeIsKnown(pool: pg.Pool, store: ObjectStore): Promise<void> {
  if (await hasHadTenants(pool)) return
  for await (const _ of store.list('')) {
    throw new SluiceError('CONFIG', 'the data folder holds a lake, and the registry has never had a tenant', {
      code: 'registry_lost',
      remedy:
        'Put back the registry that belongs to this lake (postgres in the data folder, or database.registry_url), or start on another data folder.',
    })
  }
}

/** What was registered with stores that read the lake's own files names them by where they lay. */
export async function afterMove(pool: pg.Pool, plugins: PluginSet, logger: Logger): Promise<void> {
  const types = plugins.servingTypes().filter(({ plugin }) => plugin.capabilities.commit === 'lake')
  const copies = await loseCopies(
    pool,
    types.map(({ type }) => type),
  )
  logger.warn('the data folder lies elsewhere than before; what names its files is made anew', { copies })
}

/** Nothing of it is lost: copies that other runtimes have of that lake are theirs. */
export function tellAbsent(logger: Logger): void {
  logger.warn('the data folder has no lake, and the registry knows tables of one in another folder', {
    remedy:
      'Start it on the data folder that has the lake. Several runtimes on one registry share an object store: name it under object_store.',
  })
}
