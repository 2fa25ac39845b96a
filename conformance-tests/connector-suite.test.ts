import { testConnector } from './connector-suite.ts'
import { start } from './reference-connector/conformance.ts'
import reference from './reference-connector/index.ts'

testConnector({ plugin: reference, start, level: 'full' })
