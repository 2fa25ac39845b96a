/** What a check proves where its capability is absent: using it throws UNSUPPORTED and changes nothing. */
import { isSluiceError } from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import type { CheckContext } from './context.ts'
import { MissingHook, type Requirement } from './requirements.ts'

export async function refusesUndeclared(context: CheckContext, requirement: Requirement): Promise<void> {
  const dataset = await context.filled(3)
  if (requirement.absent) return requirement.absent(context, dataset)
  const outcome = await requirement.use(context, dataset).then(
    () => null,
    (error: unknown) => error,
  )
  if (!(outcome instanceof MissingHook) && !isSluiceError(outcome, 'UNSUPPORTED'))
    throw undeclaredUse(requirement, outcome)
  await dataset.expectRows(`${requirement.name} is not declared, so trying it must leave no effect`)
}

function undeclaredUse(requirement: Requirement, outcome: unknown): CheckFailure {
  return new CheckFailure(
    {
      what: `${requirement.name} is not declared, and using it ${outcome === null ? 'worked' : 'threw something other than UNSUPPORTED'}`,
      where: 'capabilities against behaviour',
      why: 'the runtime and its users rely on the table in both directions',
      remedy: `Declare ${requirement.name}, or throw unsupported('${requirement.name}') before doing anything.`,
    },
    outcome ?? undefined,
  )
}
