/** What has to be done for a product to be made anew by the policy of today, in the state that it is in. */
import type { Pause } from '../registry/products.ts'
import { SETTLE } from './pauses.ts'

export interface Remaking {
  /** `namespace.name`. */
  readonly name: string
  readonly paused: Pause | null
  /** Columns whose source was given a class that the version in service does not have. */
  readonly toDeploy: readonly string[]
}

/** @param columns those whose rows show too much */
export function remakingRemedy({ name, paused, toDeploy }: Remaking, columns: readonly string[]): string {
  if (paused?.reason === 'registry_outdated')
    return `${name} is paused, for the registry is older than its lake. ${SETTLE}`
  const raised = toDeploy.filter((column) => columns.includes(column))
  if (raised.length > 0) {
    return `Deploy a version of ${name} with the class of ${raised.join(', ')} that its notices name (GET /api/v1/products/{id}).`
  }
  return paused === null
    ? `Materialize ${name}, with POST /api/v1/products/{id}/materialize or sluice product materialize.`
    : `Resume ${name}, with POST /api/v1/products/{id}/resume or sluice product resume, or deploy a version of it.`
}
