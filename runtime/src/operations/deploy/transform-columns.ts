/** What a transform gives beyond output.yaml or leaves out of it, and what its sources no longer have, said by name. */

import type { EngineTable } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { qualified } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { changesSince, LOST_REMEDY, lostColumns, lostText } from '../../materializer/source-changes.ts'
import { didYouMean, nearest } from '../../parsing/suggestion.ts'
import { bind } from './bind-sql.ts'
import type { DeployDeps } from './deps.ts'

/** A warning for each column that the transform gives and output.yaml does not have. */
export function excessColumns({ output }: ManifestSet, given: readonly string[]) {
  const wanted = output.columns.map(({ name }) => name)
  const known = new Set(wanted.map((name) => name.toLowerCase()))
  const excess = given.filter((name) => !known.has(name.toLowerCase()))
  return excess.map((name) => {
    const meant = nearest(
      name,
      wanted.filter((column) => !given.includes(column)),
    )
    const add = 'Add it to the schema in output.yaml, or leave it out of the SELECT.'
    return {
      manifest: 'compute' as const,
      path: 'transform',
      message: `the transform gives the column "${name}", which output.yaml does not have: it is left out`,
      hint: meant === undefined ? add : `Did you mean ${meant}? ${add}`,
    }
  })
}

/** Null where nobody knows: without a transform, in another engine's dialect, or where it cannot run. */
async function columnsGiven(
  platform: DeployDeps,
  call: TenantCall,
  { compute }: ManifestSet,
  tables: readonly EngineTable[],
): Promise<readonly string[] | null> {
  if (compute.transform === null || compute.engine === 'distributed') return null
  try {
    const run = await bind(platform, call, { kind: 'inspect', sql: compute.transform }, tables)
    return run.columns.map(({ name }) => name)
  } catch (error) {
    if (isSluiceError(error, 'INVALID_DATA')) return null
    throw error
  }
}

/** The error of a transform that cannot run over these tables, with the column at fault and where it went. */
export async function withColumnsAtFault(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  tables: readonly EngineTable[],
  error: unknown,
): Promise<unknown> {
  if (!isSluiceError(error) || error.code !== 'transform_invalid') return error
  const lost = lostColumns(manifests, await changedInputs(platform, call, manifests, tables))
  if (lost.length > 0) return said(error, lostText(lost), LOST_REMEDY)
  const given = await columnsGiven(platform, call, manifests, tables)
  const missing = manifests.output.columns.filter(
    ({ name }) => given !== null && !given.some((one) => one.toLowerCase() === name.toLowerCase()),
  )
  if (given !== null && missing.length > 0) {
    const names = missing.map(({ name }) => `"${name}"`).join(', ')
    const hint = didYouMean(missing[0]?.name ?? '', given) ?? 'Give it in the SELECT, or leave it out of output.yaml.'
    return said(error, `the transform does not give ${names} of output.yaml`, hint)
  }
  const { cause } = error
  const column = isSluiceError(cause) && cause.code === 'column_not_found' ? cause.details?.['column'] : undefined
  if (typeof column !== 'string') return error
  const hint = didYouMean(column, new Set(tables.flatMap((table) => table.columns.map(({ name }) => name))))
  return hint === undefined ? error : said(error, isSluiceError(cause) ? cause.message : '', hint)
}

/** Against what the lake has had of each; a source that could not be asked has not changed. */
async function changedInputs(
  platform: DeployDeps,
  call: TenantCall,
  { inputs }: ManifestSet,
  tables: readonly EngineTable[],
) {
  return Promise.all(
    inputs.map(async (input) => {
      const state = await platform.lake.load(rawTable(call.tenant, input.connection, qualified(input.table)), {
        signal: call.signal,
      })
      const now = tables.find(({ name }) => name.at(-1) === input.name)?.columns ?? []
      // Columns that inputs.yaml does not choose are not gone.
      const isChosen = (name: string) => input.columns === null || input.columns.includes(name)
      const changes = changesSince(state, now)
      return { input, changes: { ...changes, gone: changes.gone.filter(({ name }) => isChosen(name)) } }
    }),
  )
}

function said({ kind, code, details, cause }: SluiceError, text: string, hint: string): SluiceError {
  const [first] = (details?.['errors'] ?? []) as readonly { readonly manifest: string; readonly path: string }[]
  const place = first === undefined ? '' : `${first.path} in ${first.manifest}.yaml cannot run: `
  return new SluiceError(kind, `${place}${text}`, {
    code,
    remedy: hint,
    details: { ...details, errors: first === undefined ? [] : [{ ...first, message: text, hint }] },
    cause,
  })
}
