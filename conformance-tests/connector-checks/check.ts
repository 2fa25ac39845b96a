import type { Level } from '../check.ts'
import type { ConnectorContext } from '../connector-context.ts'

export type Mode = 'full' | 'incremental' | 'cdc'

/** One promise of the contract of connectors. As for stores, each asserts its own precondition. */
export interface ConnectorCheck {
  /** Stable; `C1` and so on. */
  readonly id: string
  readonly name: string
  readonly aliases?: readonly string[]
  readonly level: Level
  /** Where the mode is not declared, reading by it must throw UNSUPPORTED; what the check says of every other read still holds. */
  readonly requires?: Mode
  run(context: ConnectorContext): Promise<void>
}
