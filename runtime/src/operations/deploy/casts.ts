/** Whether the output's types hold what the transform gives. */

import { castLoss, SluiceError } from '@sluice/sdk'
import type { Checked } from './checked.ts'

interface LossyCast {
  readonly column: string
  readonly message: string
}

/**
 * Throws INVALID_DATA `lossy_cast`, whose `errors` name the columns whose values may lose something by the cast to their
 * type without being named in `allow_lossy`. What could not be judged says `castNotes`.
 */
export function checkCasts({ manifests, live, origins }: Pick<Checked, 'manifests' | 'live' | 'origins'>): void {
  const { columns, allowLossy = [], writeMode, keepMissing } = manifests.output
  const keepsRows = writeMode === 'append' || (writeMode === 'merge' && keepMissing !== false)
  const errors = columns.flatMap(({ name, type }, index) => {
    if (allowLossy.includes(name)) return []
    const given = origins?.find(({ column }) => column === name)?.type
    const kept = keepsRows ? live?.output.columns.find((one) => one.name === name)?.type : undefined
    const found =
      lossOf(`the column "${name}" is given as`, given, type) ?? lossOf(`rows of "${name}" that stay are`, kept, type)
    return found === null ? [] : [{ manifest: 'output', path: `schema[${index}].type`, column: name, ...found }]
  })
  const [first] = errors
  if (first === undefined) return
  throw new SluiceError('INVALID_DATA', errors.length === 1 ? first.message : severalLose(errors), {
    code: 'lossy_cast',
    remedy: errors.length === 1 ? first.hint : 'Correct the columns that errors[] names, each by its hint.',
    details: { errors: errors.map(({ column, ...error }) => error) },
  })
}

/** Said in the plan where nobody can tell beforehand what casts lose. */
export function castNotes({ origins }: Pick<Checked, 'origins'>): readonly string[] {
  if (origins !== null) return []
  return ['it is not known what the inputs hold: what casts take from values is counted when the product is made']
}

function severalLose(errors: readonly LossyCast[]): string {
  return `values of ${errors.map(({ column }) => column).join(', ')} would lose something by the cast to their types`
}

function lossOf(what: string, from: string | undefined, to: Parameters<typeof castLoss>[1]) {
  const loss = from === undefined ? null : castLoss(from, to)
  if (loss === null) return null
  const name = /"(.*)"/.exec(what)?.[1] ?? ''
  return {
    message: `${what} ${from}, and as ${to} they lose ${loss}`,
    hint: `Give the column a type that holds them, cast it in the transform as it shall be, or name it in output.yaml: allow_lossy: [${name}].`,
  }
}
