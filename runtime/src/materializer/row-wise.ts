/** Which columns of its input a transform gives as they are, where each of its rows is made of one of the input's. */
import type { Engine, EngineLimits } from '@sluice/engine'
import type { InputState } from './input-state.ts'
import { stagedTable } from './staged-rows.ts'
import { chosenColumns } from './transform.ts'

/** By output column the input's; null: a row may depend on several rows. */
type Copied = ReadonlyMap<string, string> | null

/** Throws as `Engine.run` does. */
export async function keysCopied(
  engine: Pick<Engine, 'run'>,
  transform: string,
  input: InputState,
  { tenant, limits, signal }: { readonly tenant: string; readonly limits: EngineLimits; readonly signal: AbortSignal },
): Promise<Copied> {
  const columns = chosenColumns(input)
  const { lineage, isRowWise } = await engine.run(
    {
      trust: 'tenant',
      tenant,
      tables: [stagedTable(input.input.name, { files: [], columns })],
      output: { kind: 'inspect', sql: transform },
      limits,
    },
    signal,
  )
  const copies = lineage.flatMap(({ name, copied }) => (copied === null ? [] : [[name, copied.column] as const]))
  return isRowWise === true ? new Map(copies) : null
}
