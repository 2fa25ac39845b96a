/** The lines of the capability table, each with what using it looks like. */
import {
  type Capabilities,
  type FilterOperator,
  type HistoryMode,
  isSluiceError,
  type ReadOperation,
} from '@sluice/sdk'
import { CALL_TIMEOUT_MS, callDeadline } from './call-deadline.ts'
import { expect } from './check.ts'
import type { CheckContext } from './context.ts'
import type { Dataset } from './dataset.ts'
import { answerOf, planOf } from './reading.ts'
import { SIMPLE } from './shapes.ts'

export interface Requirement {
  /** As an author would say it: `operation scan`. */
  readonly name: string
  declared(capabilities: Capabilities): boolean
  /** Uses the capability on a dataset of shape SIMPLE that holds rows. Undeclared, it must throw UNSUPPORTED. */
  use(context: CheckContext, dataset: Dataset): Promise<unknown>
  /** What must hold where it is not declared, if that cannot be said by `use`. */
  absent?(context: CheckContext, dataset: Dataset): Promise<void>
}

export function operation(name: ReadOperation): Requirement {
  return {
    name: `operation ${name}`,
    declared: (capabilities) => capabilities.operations.includes(name),
    use: ({ store }, { target }) =>
      answerOf(
        store,
        target,
        planOf(SIMPLE, name, {
          ...(name === 'key' ? { key: '1', limit: 1 } : {}),
          ...(name === 'aggregate' ? { interval: '1 day', columns: [], range: { from: null, to: null } } : {}),
          ...(name === 'get' ? { filters: [{ column: 'id', operator: 'eq', values: [1n] }] } : {}),
        }),
      ),
  }
}

/** One of several operations: absent where none of them is there. */
export function anyOperation(...names: readonly ReadOperation[]): Requirement {
  const all = names.map(operation)
  return {
    name: names.map((name) => `operation ${name}`).join(' or '),
    declared: (capabilities) => all.some(({ declared }) => declared(capabilities)),
    async use(context, dataset) {
      const outcomes = await Promise.allSettled(all.map(({ use }) => use(context, dataset)))
      const worked = outcomes.find(({ status }) => status === 'fulfilled')
      const foreign = outcomes.find((one) => one.status === 'rejected' && !isSluiceError(one.reason, 'UNSUPPORTED'))
      if (worked) return worked
      throw ((foreign ?? outcomes[0]) as PromiseRejectedResult).reason
    },
  }
}

/** On any operation that takes filters. */
export function filter(operator: FilterOperator): Requirement {
  return {
    name: `filter ${operator}`,
    declared: (capabilities) => capabilities.filters.includes(operator),
    use: ({ store, capabilities }, { target }) => {
      const way = capabilities.operations.find((name) => name === 'scan' || name === 'get' || name === 'range')
      const filters = [{ column: 'id', operator, values: [1n] }]
      const key = way === undefined ? { key: '1', limit: 1 } : {}
      return answerOf(store, target, planOf(SIMPLE, way ?? 'key', { filters, ...key }))
    },
  }
}

export function history(mode: 'type_2'): Requirement {
  return {
    name: `history ${mode}`,
    declared: (capabilities) => capabilities.histories?.includes(mode) ?? false,
    use: ({ store, capabilities }, { target }) => {
      const [way = 'scan'] = capabilities.operations
      const key = way === 'key' ? { key: '1', limit: 1 } : {}
      return answerOf(store, target, planOf(SIMPLE, way, { history: { kind: 'all' }, ...key }))
    },
  }
}

/** A history mode; what an endpoint configured for it shows is what the checks of histories prove. */
export function historyMode(mode: HistoryMode): Requirement {
  return { ...history('type_2'), name: `history ${mode}`, declared: ({ histories = [] }) => histories.includes(mode) }
}

type OptionalHook = 'recover' | 'validate' | 'activate' | 'digest' | 'query'

/** An optional hook may be left out altogether, which is as good as throwing. */
export function hook(name: OptionalHook): Requirement {
  return {
    name,
    declared: (capabilities) => capabilities[name] === true,
    use: async (context, dataset) => {
      const { store } = context
      const { target } = dataset
      const signal = callDeadline()
      if (store[name] === undefined) throw new MissingHook()
      if (name === 'recover') return store.recover?.(target)
      if (name === 'validate') return store.validate?.(target, null)
      if (name === 'activate') return store.activate?.(target, dataset.epoch)
      if (name === 'digest') return store.digest?.(target, signal)
      const limits = { maxRows: 10, timeoutMs: CALL_TIMEOUT_MS, memoryBytes: 1 << 28 }
      return store.query?.(target.scope, { sql: 'SELECT 1', parameters: [], tables: [], limits, signal })
    },
  }
}

/** The hook is not there: the plainest way of not supporting it. */
export class MissingHook extends Error {}

/** Any operation of its own. */
export const DECLARED_OPERATION: Requirement = {
  name: 'declared',
  declared: ({ declared = {} }) => Object.keys(declared).length > 0,
  async use({ store, capabilities }, { target }) {
    if (store.operate === undefined) throw new MissingHook()
    const [[operation, { example: input }] = ['no_such_operation', { example: {} }]] = Object.entries(
      capabilities.declared ?? {},
    )
    const { columns, limit, policy, timeoutMs, signal } = planOf(SIMPLE, 'scan')
    const plan = { operation, input, columns, limit, policy, timeoutMs, signal }
    for await (const _ of store.operate(target, plan)) break
  },
}

export const TTL: Requirement = {
  name: 'ttl',
  declared: (capabilities) => capabilities.ttl !== undefined,
  use: async () => undefined,
  async absent({ store, clock, capabilities }, dataset) {
    await clock.advance(TEN_YEARS_MS)
    await dataset.expectRows('a store that declares no ttl keeps its rows for good')
    const [way = 'scan'] = capabilities.operations
    const plan = planOf(SIMPLE, way, way === 'key' ? { key: '1', limit: 1 } : {})
    const { ttlRemainingS } = await answerOf(store, dataset.target, plan)
    expect(ttlRemainingS === undefined, () => ({
      what: 'an answer says how long it stays true',
      where: `read ${way}, ttlRemainingS`,
      why: 'the store declares no ttl, so nothing of it expires',
      remedy: 'Declare ttl, or leave ttlRemainingS out.',
    }))
  },
}

const TEN_YEARS_MS = 3653 * 86_400_000

/** Those whose undeclared use can be tried. */
export const REQUIREMENTS: readonly Requirement[] = [
  ...(['get', 'scan', 'range', 'aggregate', 'key'] as const).map(operation),
  ...(['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'] as const).map(filter),
  history('type_2'),
  DECLARED_OPERATION,
  TTL,
  ...(['recover', 'validate', 'activate', 'digest', 'query'] as const).map(hook),
]
