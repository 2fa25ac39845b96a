/** The reference store and the reference connector under the longest level: thousands of schedules of misfortunes. */
import { testConnector } from './connector-suite.ts'
import { start } from './reference/conformance.ts'
import reference from './reference/index.ts'
import { start as startSource } from './reference-connector/conformance.ts'
import connector from './reference-connector/index.ts'
import { testServingStore } from './suite.ts'

testServingStore({ plugin: reference, start, level: 'hard' })
testConnector({ plugin: connector, start: startSource, level: 'hard' })
