// The JSX factory: smaller than the runtime that other transforms import.
export { createElement, Fragment } from 'preact';
