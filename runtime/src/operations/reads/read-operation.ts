/** Reads by operations that plugins declare: the way of every read, but for what is asked of the store. */
import { type DeclaredOperation, type OperationPlan, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { PluginSet } from '../../plugins/plugin-set.ts'
import { unambiguous } from '../served/served-product.ts'
import { answerJson, collect, decodePosition } from './page.ts'
import { auditRead, pageBinding, type ReadDeps, readingView } from './read-endpoint.ts'
import { parseColumnNames, selectingColumn } from './read-request.ts'
import type { ReadView } from './read-view.ts'

/** One of a store that is open here. */
export interface OfferedOperation {
  readonly name: string
  /** The endpoint type whose store declares it. */
  readonly type: string
  readonly declared: DeclaredOperation
}

/** Throws CONFIG `plugin_invalid` where two types have an operation of one name: requests name the operation alone. */
export function offeredOperations(plugins: Pick<PluginSet, 'servingTypes'>): readonly OfferedOperation[] {
  const offered = new Map<string, OfferedOperation>()
  for (const { type, plugin, store } of plugins.servingTypes()) {
    if (store.operate === undefined) continue
    for (const [name, declared] of Object.entries(plugin.capabilities.declared ?? {})) {
      const other = offered.get(name)
      if (other !== undefined) {
        throw new SluiceError('CONFIG', `the stores of ${other.type} and ${type} both declare an operation ${name}`, {
          code: 'plugin_invalid',
          remedy: `Configure one of them under "serving", or rename the operation in one of the plugins.`,
        })
      }
      offered.set(name, { name, type, declared })
    }
  }
  return [...offered.values()]
}

export interface OperationRequest {
  readonly input: Readonly<Record<string, unknown>>
  readonly columns?: readonly string[]
  readonly limit?: number
  readonly cursor?: string
}

const DEFAULT_LIMIT = 20

/** The answer's JSON. Throws what every read of an endpoint does, and what the plugin's `selects` says of the input. */
export function readOperation(
  { name, type }: OfferedOperation,
  call: TenantCall,
  { reference, domain }: { readonly reference: string; readonly domain: string | undefined },
  request: OperationRequest,
  deps: ReadDeps,
): Promise<{ readonly json: string; readonly readAt: string }> {
  const find = () => unambiguous(call, deps.find(call.tenant, reference, domain))
  return readingView({ type, operation: name, call, find }, deps, async (view) => {
    refuseHiddenSelection(name, request.input, view)
    const { input, columns, cursor } = request
    const binding = pageBinding(view, { operation: name, variant: view.access.variant, input, columns })
    const after = cursor === undefined ? null : { after: decodePosition(deps.openCursor(call, cursor, binding)) }
    const { store, target, plugin } = view.served
    const plan: OperationPlan = {
      ...after,
      operation: name,
      input,
      columns: parseColumnNames(columns, view.policy, view.schema),
      limit: Math.min(request.limit ?? DEFAULT_LIMIT, plugin.capabilities.limits.maxReadRows),
      policy: view.policy,
      timeoutMs: deps.timeoutMs,
      signal: call.signal,
    }
    if (store.operate === undefined) throw new Error(`the store of ${type} has no operation ${name}`)
    await auditRead(name, view, call, deps)
    const page = await collect(store.operate(target, plan), view, plan.columns)
    const json = answerJson(view, page, (position) => deps.sealCursor(call, position, binding))
    return { json, readAt: view.marks.readAt }
  })
}

/** The plugin says what its rows hang on: nobody may choose by what is masked for him. */
function refuseHiddenSelection(
  operation: string,
  input: Readonly<Record<string, unknown>>,
  { served, schema, policy }: ReadView,
): void {
  const { plugin, target } = served
  const asked = { operation, input, config: target.config, schema: target.schema }
  // Without its word they may hang on all of them.
  const names = plugin.selects?.(asked) ?? target.schema.columns.map((column) => column.name)
  for (const name of names) selectingColumn(name, schema, policy)
}
