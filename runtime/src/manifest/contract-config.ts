/** What the platform itself reads in the config of an endpoint, beside the plugin whose config it is. */

const CONTRACT_TYPES: readonly string[] = ['lookup', 'timeseries', 'analytics', 'realtime']

export interface ContractConfig {
  readonly history_mode?: string
  readonly tracked_columns?: readonly string[]
  readonly include_columns?: readonly string[]
  readonly key_template?: string
  readonly ttl?: string
  readonly time_column?: string
  readonly continuous_aggregates?: readonly { readonly interval: string; readonly columns: readonly string[] }[]
}

/** Of a type that the contract does not know nothing is read, whatever its members are called, and whatever they hold. */
export function contractConfig(type: string, config: unknown): ContractConfig {
  return CONTRACT_TYPES.includes(type) ? (config as ContractConfig) : {}
}

/** Whether the endpoint tells of states that have passed, and so is made of every epoch that there was. */
export function keepsHistory(type: string, config: unknown): boolean {
  return (contractConfig(type, config).history_mode ?? 'current') !== 'current'
}
