/** Odd names: a store holds each of them, or declares which it can hold and refuses the others. */
import { isUsableName } from '@sluice/sdk'
import { expect, expectRefusal } from './check.ts'
import type { CheckContext } from './context.ts'
import type { Dataset } from './dataset.ts'

/** With fewer there is nobody to be mistaken for. */
const FEWEST = 3

/** Those that the store says it can hold, in their order. */
export function heldNames({ capabilities }: CheckContext, names: readonly string[]): readonly string[] {
  const held = names.filter((name) => isUsableName(name, capabilities))
  expect(held.length >= FEWEST, () => ({
    what: `of the names ${names.join(', ')} the store holds ${held.length}`,
    where: `capabilities.limits.namePattern, ${capabilities.limits.namePattern}`,
    why: 'the names that the platform gives out are lower-case letters, digits and underscores',
    remedy: 'Let the pattern take such names, or encode what the engine cannot hold.',
  }))
  return held
}

export function refusedNames({ capabilities }: CheckContext, names: readonly string[]): readonly string[] {
  return names.filter((name) => !isUsableName(name, capabilities))
}

/** A place under a name that the store says it cannot hold is refused, and is not made. */
export async function expectNameRefused({ store }: CheckContext, { target }: Dataset): Promise<void> {
  for (const mode of ['plan', 'apply'] as const) {
    await expectRefusal(
      {
        kind: 'INVALID_DATA',
        codes: ['unusable_name'],
        tried: `a place for ${target.domain}.${target.product} of ${target.scope.tenant}`,
        where: `store.provision, mode ${mode}`,
        why: 'limits.namePattern does not take one of the names, so the store could take it for another',
      },
      () => store.provision(target, mode),
    )
  }
  const { steps } = await store.drop(target, 'plan')
  expect(steps.length === 0, () => ({
    what: `a place that was refused would have to be dropped: ${steps.map(({ description }) => description).join('; ')}`,
    where: 'store.provision, then store.drop in mode plan',
    why: 'a refusal leaves no effect',
    remedy: 'Call checkNames before anything is made.',
  }))
}
