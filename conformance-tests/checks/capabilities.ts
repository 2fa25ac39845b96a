/** The capability table says what is so, in both directions. */
import { isSluiceError, type ReadOperation } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import { refusesUndeclared } from '../inverted.ts'
import { answerOf, planOf } from '../reading.ts'
import { REQUIREMENTS } from '../requirements.ts'
import { SIMPLE } from '../shapes.ts'

export const capabilityChecks: readonly Check[] = [
  {
    id: 9,
    name: 'close-idempotent-and-releases-handles',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(5)
      const { store, clock } = context
      await store.close()
      await store.close()
      expect(clock.timerCount === 0, () => ({
        what: `${clock.timerCount} timers of the store still run after it was closed`,
        where: 'store.close',
        why: 'a closed store must not keep its process alive or touch what it has released',
        remedy: 'Call the functions that clock.every returned.',
      }))
      await context.reopen()
      await dataset.expectRows('what was written outlives the close')
    },
  },
  {
    id: 12,
    name: 'undeclared-capability-throws-UNSUPPORTED-without-effect',
    level: 'core',
    async run(context) {
      const undeclared = REQUIREMENTS.filter((requirement) => !requirement.declared(context.capabilities))
      for (const requirement of undeclared) await refusesUndeclared(context, requirement)
      const dataset = await context.filled(5)
      await expectRefusal(
        {
          kind: 'UNSUPPORTED',
          tried: 'a read by an operation that the contract does not have',
          where: 'store.read',
          why: 'a later version of the contract may have it, and the store does not know what it means',
        },
        () => answerOf(context.store, dataset.target, planOf(SIMPLE, 'teleport' as ReadOperation, { limit: 1 })),
      )
      await dataset.expectRows('a refused read must leave no effect')
    },
  },
  {
    id: 13,
    name: 'declared-capability-is-exercised',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(5)
      for (const requirement of REQUIREMENTS.filter(({ declared }) => declared(context.capabilities))) {
        const needsConfig = requirement.name === 'operation aggregate' || requirement.name.startsWith('history')
        if (needsConfig) continue
        await requirement.use(context, dataset).catch((error: unknown) => {
          throw notThere(requirement.name, error)
        })
      }
      await dataset.expectRows('using what is declared must not change the rows')
    },
  },
]

function notThere(name: string, error: unknown): CheckFailure {
  const thrown = isSluiceError(error) ? `${error.kind} ${error.code}` : String(error)
  return new CheckFailure(
    {
      what: `${name} is declared, and using it threw ${thrown}`,
      where: 'capabilities against behaviour',
      why: 'the runtime switches on what stands in the table',
      remedy: `Implement ${name}, or take it out of the table.`,
    },
    error,
  )
}
