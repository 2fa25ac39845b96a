import { testConnector } from '@sluice/conformance'
import { reopening, start } from './conformance.ts'

testConnector({ plugin: reopening(), start, level: 'full' })
