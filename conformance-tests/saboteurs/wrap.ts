/** Defective variants of the reference store: the same plugin, with one promise broken. */
import type { PluginManifest, ServingPlugin, ServingStore } from '@sluice/sdk'
import { batchFromRows, type ChangeSet, isJsonBatch, type ReadBatch, type Row, rowsOf } from '@sluice/sdk'
import reference, { type ReferenceConfig, type ReferenceMemory, type ReferenceSettings } from '../reference/index.ts'

export type Store = ServingStore<ReferenceConfig>

export interface Saboteur {
  /** What it does wrong. */
  readonly name: string
  /** The numbers of the checks that have to catch it. */
  readonly caughtBy: readonly number[]
  readonly plugin: ServingPlugin<ReferenceSettings, ReferenceConfig>
  /** What else is wrong than the plugin's code. */
  readonly options?: { readonly manifest?: PluginManifest }
}

/** The reference with some of its hooks replaced; `memory` is its disk. */
export function saboteur(
  name: string,
  caughtBy: readonly number[],
  replace: (store: Store, memory: ReferenceMemory) => Partial<Store>,
): Saboteur {
  const plugin: Saboteur['plugin'] = {
    ...reference,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      return { ...store, ...replace(store, settings.memory) }
    },
  }
  return { name, caughtBy, plugin }
}

/** As `saboteur`, for what only a plugin can get wrong: its table, or what it keeps between opens. */
export function sabotagedPlugin(
  name: string,
  caughtBy: readonly number[],
  change: (plugin: Saboteur['plugin']) => Saboteur['plugin'],
): Saboteur {
  return { name, caughtBy, plugin: change(reference) }
}

/** The change set with other rows to put in. */
export function withUpserts(changes: ChangeSet, change: (rows: readonly Row[]) => readonly Row[]): ChangeSet {
  return {
    ...changes,
    async *upserts() {
      const rows: Row[] = []
      for await (const batch of changes.upserts()) rows.push(...rowsOf(batch))
      yield batchFromRows(change(rows), changes.schema.columns.length)
    },
  }
}

/** A set whose count of rows is right again after `withUpserts` has changed it. */
export async function counted(changes: ChangeSet): Promise<ChangeSet> {
  let upsertCount = 0
  for await (const batch of changes.upserts()) upsertCount += batch.rowCount
  return { ...changes, upsertCount }
}

/** The read with its batches changed. */
export function readingWith(store: Store, change: (batch: ReadBatch) => ReadBatch): Store['read'] {
  return async function* read(target, plan) {
    for await (const batch of store.read(target, plan)) yield change(batch)
  }
}

/** The batch with its rows changed; a JSON batch as it is. */
export function withRows(batch: ReadBatch, change: (rows: readonly Row[]) => readonly Row[]): ReadBatch {
  if (isJsonBatch(batch)) return batch
  return { ...batch, ...batchFromRows(change([...rowsOf(batch)]), batch.columns.length) }
}
