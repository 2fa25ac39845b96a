export { type Check, CheckFailure, expect, expectRefusal, LEVELS, type Level } from './check.ts'
export type { ConnectorCheck } from './connector-checks/check.ts'
export type { SourceFixture, SourceTable } from './connector-fixture.ts'
export {
  CONNECTOR_CHECKS,
  type ConnectorSuiteOptions,
  runConnectorSuite,
  selectConnectorChecks,
  testConnector,
} from './connector-suite.ts'
export { CheckContext, type Fixture } from './context.ts'
export { Dataset } from './dataset.ts'
export { RecordingLogger, TestHost, VirtualClock } from './host.ts'
export type { LoggedSource, SourceTransaction, SourceWrite } from './log-fixture.ts'
export type { ConfigWish, Knobs } from './profile.ts'
export { Random } from './random.ts'
export { CHECKS } from './registry.ts'
export {
  type CheckResult,
  runSuite,
  type SuiteOptions,
  type TestRunner,
  testServingStore,
  type Waiver,
} from './suite.ts'
