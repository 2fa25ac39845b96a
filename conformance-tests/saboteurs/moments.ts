/** Stores that get the moments around a commit wrong, or do more work than a read is worth. */
import { type ChangeSet, SluiceError, type Value } from '@sluice/sdk'
import { readingWith, type Saboteur, sabotagedPlugin, saboteur, withRows, withUpserts } from './wrap.ts'

export const momentSaboteurs: readonly Saboteur[] = [
  saboteur('drops whatever begins with the name', [34], (store) => ({
    async drop(target, mode) {
      if (mode === 'apply') {
        for (const more of ['2', '_', '__masked', ':x']) {
          await store.drop({ ...target, product: `${target.product}${more}` }, mode)
        }
      }
      return store.drop(target, mode)
    },
  })),
  saboteur('rounds doubles to six digits', [35, 36], (store) => ({
    write: (target, changes, commit) => {
      const rounded = (value: Value) =>
        typeof value === 'number' && !Number.isInteger(value) && Number.isFinite(value)
          ? Number(value.toPrecision(6))
          : value
      return store.write(
        target,
        withUpserts(changes, (rows) => rows.map((row) => row.map(rounded))),
        commit,
      )
    },
  })),
  saboteur('makes up a key for rows without one', [40], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withUpserts(changes, (rows) => rows.map((row) => (row[0] === null ? row.with(0, 0n) : row))),
        commit,
      ),
  })),
  saboteur('keeps what came before the stream broke', [41], (store) => ({
    async write(target, changes, commit) {
      const upsertCount = await countOf(endingEarly(changes))
      return store.write(target, { ...endingEarly(changes), upsertCount }, commit)
    },
  })),
  saboteur('does not count what comes', [41], (store) => ({
    async write(target, changes, commit) {
      const upsertCount = await countOf(changes).catch(() => changes.upsertCount)
      return store.write(target, { ...changes, upsertCount }, commit)
    },
  })),
  saboteur('answers a write before readers see it', [48], (store, memory) => ({
    async write(target, changes, commit) {
      const before = memory.get(target)?.servedEpoch ?? null
      const receipt = await store.write(target, changes, commit)
      const stored = memory.get(target)
      if (stored && before !== null && receipt.outcome === 'applied') {
        stored.servedEpoch = before
        setTimeout(() => {
          stored.servedEpoch = stored.contents.at(-1)?.applied.epoch ?? null
        }, 5)
      }
      return receipt
    },
  })),
  saboteur('leaves half of a write that was let go of', [49], (store, memory) => ({
    async write(target, changes, commit) {
      const receipt = await store.write(target, changes, { ...commit, signal: new AbortController().signal })
      if (!commit.signal.aborted) return receipt
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      if (stored && content) {
        stored.contents = [...stored.contents.slice(0, -1), { ...content, versions: content.versions.slice(2) }]
      }
      throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
    },
  })),
  sabotagedPlugin('looks at the token only when it begins', [66], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      let forget: () => void = () => undefined
      const faultPoint = async (name: string) => {
        const mine = forget
        await host.faultPoint(name)
        mine()
      }
      const store = await plugin.open(settings, Object.assign(Object.create(host) as typeof host, { faultPoint }))
      return {
        ...store,
        async write(target, changes, { epoch, fence, ...rest }) {
          const stored = settings.memory.get(target)
          const isApplied = stored?.contents.at(-1)?.applied.epoch === epoch
          const isCurrent = stored !== undefined && fence >= stored.fence && !isApplied
          // Whoever wrote the same epoch meanwhile is forgotten, and so is his token.
          forget = () => {
            if (!isCurrent || stored.fence <= fence) return
            stored.contents = stored.contents.filter(({ applied }) => applied.epoch !== epoch)
            stored.fence = fence
          }
          return store.write(target, changes, { epoch, fence, ...rest }).finally(() => {
            forget = () => undefined
          })
        },
      }
    },
  })),
  saboteur('rounds tokens', [70], (store) => ({
    async recover(target) {
      const applied = (await store.recover?.(target)) ?? null
      return applied && { ...applied, fence: BigInt(Number(applied.fence)) }
    },
  })),
  saboteur('names the new epoch before its rows are there', [71], (store) => {
    const writing = new Map<string, number>()
    return {
      async write(target, changes, commit) {
        writing.set(target.product, commit.epoch)
        try {
          return await store.write(target, changes, commit)
        } finally {
          writing.delete(target.product)
        }
      },
      read: (target, plan) => {
        const epoch = writing.get(target.product)
        return readingWith(store, (batch) => (epoch === undefined ? batch : { ...batch, epoch }))(target, plan)
      },
    }
  }),
  saboteur('holds what nobody reads to the end', [58], (store) => {
    let held = 0
    return {
      async *read(target, plan) {
        if (held >= 40) throw new SluiceError('TRANSIENT', 'no cursor is free', { code: 'store_exhausted' })
        held += 1
        yield* store.read(target, plan)
        held -= 1
      },
    }
  }),
  saboteur('asks the policy row by row', [90], (store, memory) => ({
    async *read(target, plan) {
      const count = plan.policy.rows.op === 'all' ? 0 : (memory.get(target)?.contents.at(-1)?.versions.length ?? 0)
      for (let row = 0; row < count; row += 1) await Promise.resolve(row)
      yield* store.read(target, plan)
    },
  })),
  saboteur('looks at every row for a point read', [97], (store, memory) => ({
    async *read(target, plan) {
      const count = plan.operation === 'get' ? (memory.get(target)?.contents.at(-1)?.versions.length ?? 0) : 0
      for (let row = 0; row < count; row += 1) await Promise.resolve(row)
      yield* store.read(target, plan)
    },
  })),
  saboteur('gives a row each time that it is named', [98], (store) => ({
    read: (target, plan) => {
      const asked = plan.filters.find(({ operator }) => operator === 'in')?.values ?? []
      const times = (id: Value) => asked.filter((one) => one === id).length
      return readingWith(store, (batch) =>
        asked.length > 0
          ? withRows(batch, (rows) => rows.flatMap((row) => Array(Math.max(1, times(row[0] ?? null))).fill(row)))
          : batch,
      )(target, plan)
    },
  })),
  saboteur('loses an answer now and then', [124], (store) => {
    let reads = 0
    return {
      read: (target, plan) => {
        reads += 1
        const isLost = reads % 23 === 0
        return readingWith(store, (batch) => (isLost ? withRows(batch, () => []) : batch))(target, plan)
      },
    }
  }),
  saboteur('fills a new column of a twin from the clear variant', [94], (store, memory) => ({
    read: (target, plan) => {
      const clear = memory.get({ ...target, variant: 'clear' })?.contents.at(-1)?.versions ?? []
      const email = new Map(clear.map(({ row }) => [row[0], row[6] ?? null]))
      return readingWith(store, (batch) =>
        target.variant === 'clear' || plan.columns.length !== 7
          ? batch
          : withRows(batch, (rows) => rows.map((row) => row.with(6, row[6] ?? email.get(row[0]) ?? null))),
      )(target, plan)
    },
  })),
  saboteur('makes JSON of the clear variant', [96], (store) => ({
    read: (target, plan) => store.read(plan.encoding === 'json' ? { ...target, variant: 'clear' } : target, plan),
  })),
]

/** The set as it looks to whoever takes an error for the end. */
function endingEarly(changes: ChangeSet): ChangeSet {
  return {
    ...changes,
    async *upserts() {
      try {
        yield* changes.upserts()
      } catch {
        // The end, as far as this store cares.
      }
    },
  }
}

async function countOf(changes: ChangeSet): Promise<number> {
  let count = 0
  for await (const { rowCount } of changes.upserts()) count += rowCount
  return count
}
