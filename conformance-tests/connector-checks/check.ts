import type { ConnectorPlugin } from '@sluice/sdk'
import type { Level } from '../check.ts'
import type { ConnectorContext } from '../connector-context.ts'
import type { SourceFixture } from '../connector-fixture.ts'

export type Mode = 'full' | 'incremental' | 'cdc'

/** One promise of the contract of connectors. As for stores, each asserts its own precondition. */
export interface ConnectorCheck {
  /** Stable; `C1` and so on. */
  readonly id: string
  readonly name: string
  readonly aliases?: readonly string[]
  readonly level: Level
  /** Where the mode is not declared, reading by it must throw UNSUPPORTED, and there must be no `changes` for `cdc`. */
  readonly requires?: Mode
  /** Whether the check has anything to say about this connector and source, by what they declare; in words where not. */
  notFor?(plugin: ConnectorPlugin, fixture: SourceFixture): string | null
  run(context: ConnectorContext): Promise<void>
}
