import { testServingStore } from '../suite.ts'
import { start } from './conformance.ts'
import plugin from './index.ts'

testServingStore({ plugin, start, level: 'core' })
